// tutti explain: which algorithm a call would use, and why.
#include "src/planner/explain.h"

#include <iostream>
#include <memory>

#include "src/base/env.h"
#include "src/topology/topology.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/schedule_flags.h"

namespace tutti::tools {
namespace {

struct ExplainFlags : ScheduleFlags {
  std::string hosts = "1", cores, buffer_limit;
};

void run(const ExplainFlags& flags) {
  planner::World world;
  world.ranks = flags.rank_count();
  const auto hosts = flag([&] { return base::parse_integer("--hosts", flags.hosts, 1, world.ranks); });
  world.host_of_rank = blocks_of_ranks(world.ranks, static_cast<int>(hosts));
  world.cores_per_host = flags.cores.empty() ? topology::usable_pus() : static_cast<int>(flag([&] {
    return base::parse_integer("--cores", flags.cores, 1, 1 << 20);
  }));
  if (const auto limit = base::env("TUTTI_BUFFER_LIMIT"))
    world.buffer_limit = base::parse_bytes("TUTTI_BUFFER_LIMIT", *limit);
  if (!flags.buffer_limit.empty())
    world.buffer_limit = flag([&] { return base::parse_bytes("--buffer-limit", flags.buffer_limit); });
  world.forced_algorithm = flags.algorithms.empty() ? base::env("TUTTI_ALGO").value_or("") : flags.algorithms;
  world.profile = planner::load_profile();
  if (const std::string warning = planner::mismatch(world.profile, planner::this_machine()); !warning.empty())
    std::cerr << "tutti explain: " << warning << "\n";
  planner::Question question;
  question.collective = flags.the_collective();
  question.type = flags.the_type();
  question.op = flags.the_op();
  question.root = flags.the_root();
  question.count = flags.count();
  std::cout << flag([&] {
    planner::Planner planner(std::move(world));
    return planner::explain(planner, question);
  });
}

}  // namespace

void add_explain(CLI::App& app) {
  const auto flags = std::make_shared<ExplainFlags>();
  CLI::App& command = *app.add_subcommand("explain", "Show which algorithm a call would use, and why");
  flags->add_world(command);
  flags->add_size(command, true);
  command.add_option("--op", flags->op, "reduction: sum, prod, max, min, avg, mulsum, bit_and, bit_or, bit_xor")
      ->capture_default_str();
  command.add_option("--hosts", flags->hosts, "hosts that share the ranks in equal blocks")->capture_default_str();
  command.add_option("--cores", flags->cores, "cores of each host (default: those of this machine)");
  command.add_option("--algo", flags->algorithms, "force an algorithm, as TUTTI_ALGO does");
  command.add_option("--buffer-limit", flags->buffer_limit, "bytes of slots per rank, as TUTTI_BUFFER_LIMIT");
  command.callback([flags] { run(*flags); });
}

}  // namespace tutti::tools

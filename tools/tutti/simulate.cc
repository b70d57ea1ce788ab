// tutti simulate: how long an algorithm would take on a machine given by a few numbers.
#include "src/simulator/simulator.h"

#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/planner/geometry.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/schedule_flags.h"

namespace tutti::tools {
namespace {

struct SimulateFlags : ScheduleFlags {
  std::string alpha = "1", beta = "10", gamma, remote_alpha, remote_beta, hosts = "1", slots, slot_size, trace;
};

constexpr double kMostMicroseconds = 1e9;
constexpr double kLeastBandwidth = 1e-6, kMostBandwidth = 1e6;  // GB/s

double per_byte(const std::string& name, const std::string& bandwidth) {
  return 1e-3 / parse_number(name, bandwidth, kLeastBandwidth, kMostBandwidth);
}

simulator::Model model_of(const SimulateFlags& flags) {
  simulator::Model model;
  model.link.alpha_us = parse_number("--alpha", flags.alpha, 0, kMostMicroseconds);
  model.link.beta_us_per_byte = per_byte("--beta", flags.beta);
  model.remote = model.link;
  if (!flags.remote_alpha.empty())
    model.remote.alpha_us = parse_number("--remote-alpha", flags.remote_alpha, 0, kMostMicroseconds);
  if (!flags.remote_beta.empty()) model.remote.beta_us_per_byte = per_byte("--remote-beta", flags.remote_beta);
  if (!flags.gamma.empty()) model.gamma_us_per_byte = per_byte("--gamma", flags.gamma);
  const auto hosts = flag([&] { return base::parse_integer("--hosts", flags.hosts, 1, flags.rank_count()); });
  model.host_of_rank = blocks_of_ranks(flags.rank_count(), static_cast<int>(hosts));
  return model;
}

// The planner's, or the user's.
planner::Geometry slots_of(const SimulateFlags& flags, const schedule::Schedule& schedule) {
  planner::World world;
  world.ranks = schedule.ranks;
  const schedule::Builder& builder = *schedule::find_builder(schedule.collective, schedule.name);
  const auto choices =
      planner::geometries(schedule, schedule::MessageShape(schedule), world,
                          static_cast<std::uint32_t>(builder.min_slots), flags.count(), size_of(flags.the_type()));
  planner::Geometry slots = choices.empty() ? planner::Geometry{2, 64 << 10} : choices.front();
  if (!flags.slots.empty())
    slots.slots =
        static_cast<std::uint32_t>(flag([&] { return base::parse_integer("--slots", flags.slots, 1, 1 << 20); }));
  if (!flags.slot_size.empty()) {
    const std::size_t bytes = flag([&] { return base::parse_bytes("--slot-size", flags.slot_size); });
    if (bytes < 64 || bytes > (1u << 30) || bytes % 64 != 0)
      throw CLI::ValidationError("--slot-size is '" + flags.slot_size + "'; valid: multiples of 64 bytes up to 1G");
    slots.slot_bytes = static_cast<std::uint32_t>(bytes);
  }
  return slots;
}

void print(const SimulateFlags& flags, const schedule::Schedule& schedule, const planner::Geometry& slots,
           const simulator::Result& result) {
  const double bytes = static_cast<double>(flags.count() * size_of(flags.the_type()));
  const auto busiest = std::max_element(result.connections.begin(), result.connections.end(),
                                        [](const auto& a, const auto& b) { return a.busy_us < b.busy_us; });
  std::cout << std::fixed << std::setprecision(2) << schedule.name << " " << name_of(schedule.collective) << ", "
            << schedule.ranks << " ranks, " << base::format_bytes(static_cast<std::size_t>(bytes)) << ", "
            << slots.slots << " slots of " << base::format_bytes(slots.slot_bytes) << "\n"
            << "  time          " << result.total_us << " us";
  if (result.total_us > 0) std::cout << "   (" << bytes / result.total_us / 1e3 << " GB/s)";
  std::cout << "\n  rounds        " << result.rounds << "\n  messages      " << result.messages << "\n";
  if (busiest != result.connections.end() && result.total_us > 0)
    std::cout << "  busiest link  " << busiest->writer << " -> " << busiest->reader << ", busy "
              << 100 * busiest->busy_us / result.total_us << "% of the time with " << busiest->messages
              << " messages\n";
}

void write_trace(const std::string& path, const simulator::Result& result) {
  std::ofstream file(path, std::ios::trunc);
  file << "kind,rank,lane,step,port,round,bytes,begin_us,end_us\n";
  for (const simulator::Event& event : result.trace)
    file << (event.kind == simulator::Event::Kind::step ? "step" : "message") << ',' << event.rank << ',' << event.lane
         << ',' << event.step << ',' << event.port << ',' << event.round << ',' << event.bytes << ',' << event.begin_us
         << ',' << event.end_us << '\n';
  file.close();
  if (!file) base::throw_errno("cannot write " + path);
}

void run(const SimulateFlags& flags) {
  const simulator::Model model = model_of(flags);
  const std::size_t count = flags.count();
  const auto schedules = flags.build();
  if (!flags.trace.empty() && schedules.size() > 1)
    throw CLI::ValidationError("--trace takes one algorithm; --algo is '" + flags.algorithms + "'");
  for (const schedule::Schedule& schedule : schedules) {
    const planner::Geometry slots = slots_of(flags, schedule);
    const auto result = simulator::simulate(schedule, model, count, flags.the_type(), slots.slots, slots.slot_bytes,
                                            !flags.trace.empty());
    print(flags, schedule, slots, result);
    if (!flags.trace.empty()) write_trace(flags.trace, result);
  }
}

}  // namespace

void add_simulate(CLI::App& app) {
  const auto flags = std::make_shared<SimulateFlags>();
  CLI::App& command = *app.add_subcommand(
      "simulate", "Predict an algorithm's time where every connection is a link of its own, at any scale");
  flags->add_algorithm(command, true);
  flags->add_world(command);
  flags->add_lanes(command);
  flags->add_size(command, true);
  command.add_option("--alpha", flags->alpha, "latency of a link in us")->capture_default_str();
  command.add_option("--beta", flags->beta, "bandwidth of a link in GB/s")->capture_default_str();
  command.add_option("--gamma", flags->gamma, "bandwidth of a rank's reductions in GB/s (default: they cost nothing)");
  command.add_option("--hosts", flags->hosts, "hosts that share the ranks in equal blocks")->capture_default_str();
  command.add_option("--remote-alpha", flags->remote_alpha, "latency between hosts in us (default: --alpha)");
  command.add_option("--remote-beta", flags->remote_beta, "bandwidth between hosts in GB/s (default: --beta)");
  command.add_option("--slots", flags->slots, "slots per port (default: the planner's)");
  command.add_option("--slot-size", flags->slot_size, "bytes of a slot (default: the planner's)");
  command.add_option("--trace", flags->trace, "file for a table of all events (CSV)");
  command.callback([flags] { run(*flags); });
}

}  // namespace tutti::tools

// tutti tune: measures this machine and saves the profile that the planner uses from then on; see bench/compare/tune.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "bench/compare/conditions.h"
#include "bench/compare/runner.h"
#include "bench/compare/tune.h"
#include "src/base/env.h"
#include "src/planner/profile.h"
#include "src/planner/size_class.h"
#include "src/topology/topology.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/number_flag.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using namespace tutti::compare;

constexpr double kBusy = 0.1;  // share of the CPU that others may take without a word

constexpr double kOverrun = 1.15;  // of the budget, by the turns that every algorithm gets

struct TuneFlags {
  std::string ranks, sizes = "64:64M", memory = "ordinary", output, worker_result;
  bool quick = false;
};

// 2, 4 and, on machines with more cores, their doubles.
std::string default_ranks() {
  std::string text = "2,4";
  for (int ranks = 8; ranks <= topology::usable_pus() && ranks <= planner::kMostMeasuredRanks; ranks *= 2)
    text += "," + std::to_string(ranks);
  return text;
}

// The borders of the classes of FROM, 2 FROM, ... TO, or of listed sizes.
std::vector<std::size_t> size_classes(const TuneFlags& flags) {
  const auto colons = std::count(flags.sizes.begin(), flags.sizes.end(), ':');
  const std::string range = flags.sizes + (colons == 1 ? (flags.quick ? ":x8" : ":x2") : "");
  std::vector<std::size_t> borders;
  for (const std::size_t size : parse_sizes("--sizes", range)) {
    if (size > std::size_t{1} << 40)
      throw Error(ErrorCode::invalid_argument, "--sizes has " + std::to_string(size) + " bytes; valid: at most 1T");
    borders.push_back(planner::class_border(planner::class_of(size)));
  }
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  if (borders.size() > planner::kMostPoints)
    throw Error(ErrorCode::invalid_argument, "--sizes has " + std::to_string(borders.size()) +
                                                 " size classes; valid: at most " +
                                                 std::to_string(planner::kMostPoints));
  return borders;
}

Tuning tuning_of(const TuneFlags& flags) {
  Tuning tuning;
  tuning.sizes = size_classes(flags);
  if (flags.quick) tuning.rounds = 3, tuning.turn_ms = 1.5, tuning.budget_s = 10;
  return tuning;
}

std::vector<int> rank_counts(const TuneFlags& flags) {
  std::vector<int> counts = parse_ranks("--ranks", flags.ranks);
  for (const int ranks : counts)
    if (ranks < 2 || ranks > planner::kMostMeasuredRanks)
      throw Error(ErrorCode::invalid_argument, "--ranks is '" + flags.ranks + "'; valid: numbers from 2 to " +
                                                   std::to_string(planner::kMostMeasuredRanks));
  return counts;
}

// What an earlier profile says of other numbers of ranks stays, if it was measured here in the same way.
planner::Profile earlier(const std::string& path, const planner::Profile& fresh) {
  try {
    planner::Profile old = planner::load_profile(path);
    const bool same = planner::alike(old.machine, fresh.machine) && old.memory == fresh.memory &&
                      old.usable_cores == fresh.usable_cores;
    if (same || old.tables.empty()) return old;
    std::cout << path << " was measured elsewhere or otherwise and is replaced.\n";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    std::cout << "Replaced: " << error.what() << "\n";
  }
  return {};
}

void save(const std::string& path, planner::Profile fresh, const std::vector<Outcome>& outcomes) {
  fresh.tables = earlier(path, fresh).tables;
  for (const Outcome& outcome : outcomes) {
    std::erase_if(fresh.tables, [&](const planner::Table& old) { return old.ranks == outcome.ranks; });
    for (planner::Table& table : tables_of(outcome)) fresh.tables.push_back(std::move(table));
  }
  planner::save_profile(fresh, path);
  std::cout << "\nProfile saved to " << path << ".\n";
}

void tune_here(const TuneFlags& flags) {
  const Tuning tuning = tuning_of(flags);
  const Progress progress = [](const std::string& line) { std::cerr << line + "\n" << std::flush; };
  const Measure one_rank = [&](perf::Peer& peer) { return measure_variants(peer, tuning, progress); };
  if (!flags.worker_result.empty()) return measure_as_worker(flags.worker_result, one_rank);
  const std::string path = flags.output.empty() ? planner::profile_path() : flags.output;
  if (path.empty())
    throw Error(ErrorCode::invalid_argument,
                "there is no place for the profile: name a file with --output or TUTTI_PROFILE");
  const bool threads = base::parse_choice("--memory", flags.memory, {"ordinary", "threads"}) == "threads";
  const std::vector<int> counts = rank_counts(flags);
  planner::Profile profile;
  profile.machine = planner::this_machine();
  profile.memory = threads ? "threads" : "ordinary";
  profile.usable_cores = topology::usable_cores(topology::detect(topology::Devices::skip));
  std::cout << "Measuring " << in_words(profile.machine) << ", ranks as " << (threads ? "threads" : "processes")
            << ": at most about "
            << std::lround(std::ceil(kOverrun * tuning.budget_s * static_cast<double>(counts.size()))) << " s.\n"
            << std::flush;
  if (const double busy = busy_share(); busy > kBusy)
    std::cout << "Other programs take " << std::lround(100 * busy)
              << "% of the CPU: the figures will be worth little; tune again when the machine is quiet.\n"
              << std::flush;
  ::setenv("TUTTI_PROFILE", "none", 1);  // the automatic choice is to be the model's
  std::vector<Outcome> outcomes;
  for (const int ranks : counts) {
    std::vector<std::string> worker{"tune", "--sizes", joined(tuning.sizes)};
    if (flags.quick) worker.emplace_back("--quick");
    outcomes.push_back(threads ? measure_with_threads(ranks, one_rank) : measure_with_processes(ranks, worker));
    std::cout << tuning_text(outcomes.back(), tables_of(outcomes.back())) << std::flush;
  }
  save(path, std::move(profile), outcomes);
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tune", "Measure this machine and save a profile for the planner");
  auto flags = std::make_shared<TuneFlags>();
  flags->ranks = default_ranks();
  command->add_option("--ranks", flags->ranks, "Numbers of ranks: 2,4,...")->capture_default_str();
  command->add_option("--sizes", flags->sizes, "FROM:TO, or as in `tutti compare`")->capture_default_str();
  command->add_flag("--quick", flags->quick, "Fewer sizes and rounds: seconds instead of minutes");
  command->add_option("--output", flags->output, "File of the profile (default: TUTTI_PROFILE or its default)")
      ->type_name("FILE");
  command->add_option("--memory", flags->memory, "ordinary (ranks as processes) or threads")->capture_default_str();
  command->add_option("--worker-result", flags->worker_result)->group("");  // a rank of its own measurement
  command->callback([flags] { flag([&] { tune_here(*flags); }); });
}

}  // namespace tutti::tools

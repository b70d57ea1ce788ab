// tutti compare: the all-reduce algorithms of this machine against each other; see bench/compare/.
#include <filesystem>
#include <iostream>
#include <memory>

#include "bench/compare/experiment.h"
#include "bench/compare/measure.h"
#include "bench/compare/report.h"
#include "bench/compare/runner.h"
#include "src/base/env.h"
#include "src/base/error.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/number_flag.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using namespace tutti::compare;

struct Flags {
  std::string ranks = "2,4", sizes = "8:64M:x4", algorithms = "all", type = "float", op = "sum", out, worker_result;
  int rounds = 7;
  bool processes = false, threads = false, bind = false;
};

Experiment experiment_of(const Flags& flags) {
  Experiment experiment;
  const auto type = data_type_from_name(flags.type);
  std::vector<std::string> types, ops;
  for (int i = 0; i < kDataTypes; ++i) types.emplace_back(name_of(static_cast<DataType>(i)));
  for (int i = 0; i < kReduceOps; ++i) ops.emplace_back(name_of(static_cast<ReduceOp>(i)));
  experiment.type = type ? *type : *data_type_from_name(base::parse_choice("--type", flags.type, types));
  experiment.op = *reduce_op_from_name(base::parse_choice("--op", flags.op, ops));
  if (!can_reduce(experiment.type, experiment.op))
    throw CLI::ValidationError("--op", "'" + flags.op + "' does not reduce elements of type " + flags.type +
                                           "; valid: " + valid_ops(experiment.type));
  experiment.sizes = parse_sizes("--sizes", flags.sizes);
  if (experiment.sizes.front() < size_of(experiment.type))
    throw CLI::ValidationError("--sizes", "'" + flags.sizes + "' has " + std::to_string(experiment.sizes.front()) +
                                              " bytes, less than one " + flags.type + "; valid: sizes from " +
                                              std::to_string(size_of(experiment.type)));
  experiment.rounds = flags.rounds;
  experiment.bind = flags.bind;
  if (flags.algorithms != "all") experiment.algorithms = split(flags.algorithms, ',');
  return experiment;
}

void write_reports(const std::string& folder, const std::vector<Outcome>& outcomes, const Conditions& conditions) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw CLI::ValidationError("--out", "'" + folder + "' cannot be created (" + error.message() +
                                            "); valid: a folder that exists or may be made");
  write_file(folder + "/report.csv", report_csv(outcomes, conditions));
  write_file(folder + "/report.html", report_html(outcomes, conditions));
  std::cout << "\nReports written to " << folder << "/report.html and " << folder << "/report.csv\n";
}

std::string command_line(const Flags& flags) {
  std::string text = "tutti compare --ranks " + flags.ranks + " --sizes " + flags.sizes + " --algos " +
                     flags.algorithms + " --rounds " + std::to_string(flags.rounds) + " --type " + flags.type +
                     " --op " + flags.op + (flags.threads ? " --threads" : " --processes") +
                     (flags.bind ? " --bind" : "");
  if (!flags.out.empty()) text += " --out " + flags.out;
  return text;
}

void compare_here(const Flags& flags) {
  const Experiment experiment = experiment_of(flags);
  const Progress progress = [](const std::string& line) { std::cerr << line + "\n" << std::flush; };
  const Measure one_rank = [&](perf::Peer& peer) { return measure(peer, experiment, progress); };
  if (!flags.worker_result.empty()) return measure_as_worker(flags.worker_result, one_rank);
  std::vector<Outcome> outcomes;
  for (const int ranks : parse_ranks("--ranks", flags.ranks)) {
    outcomes.push_back(flags.threads ? measure_with_threads(ranks, one_rank)
                                     : measure_with_processes(ranks, worker_command(experiment)));
    std::cout << report_text(outcomes.back()) << std::flush;
  }
  if (!flags.out.empty())
    write_reports(flags.out, outcomes, conditions_here(experiment, TUTTI_VERSION, command_line(flags), flags.threads));
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "Measure the all-reduce algorithms against each other");
  auto flags = std::make_shared<Flags>();
  command->add_option("--ranks", flags->ranks, "Numbers of ranks: 2,4,...")->capture_default_str();
  command->add_option("--sizes", flags->sizes, "FROM:TO:xFACTOR, FROM:TO:+STEP or a list of sizes")
      ->capture_default_str();
  command->add_option("--algos", flags->algorithms, "all, or names: ring,tree,...")->capture_default_str();
  add_number(*command, "--rounds", flags->rounds, 1, 1000, "Turns of each algorithm at each size")
      ->default_str(std::to_string(flags->rounds));
  command->add_option("--type", flags->type, "Element type")->capture_default_str();
  command->add_option("--op", flags->op, "sum, prod, max, min, avg, mulsum, bit_and, bit_or or bit_xor")
      ->capture_default_str();
  CLI::Option* processes = command->add_flag("--processes", flags->processes, "Ranks are processes (default)");
  command->add_flag("--threads", flags->threads, "Ranks are threads of this process")->excludes(processes);
  command->add_flag("--bind", flags->bind, "Keep each rank on a core: steadier figures on a busy machine");
  command->add_option("--out", flags->out, "Folder for report.html and report.csv")->type_name("DIR");
  command->add_option("--worker-result", flags->worker_result)->group("");  // a rank of its own measurement
  command->callback([flags] { flag([&] { compare_here(*flags); }); });
}

}  // namespace tutti::tools

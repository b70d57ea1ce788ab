// Starts the ranks of a comparison, as processes or as threads, and brings their results back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/compare/experiment.h"
#include "bench/perf/peer.h"

namespace tutti::compare {

using Progress = std::function<void(const std::string&)>;
// One rank's part of a measurement; every rank's outcome is the same.
using Measure = std::function<Outcome(perf::Peer&)>;

// Ranks as threads of this process.
Outcome measure_with_threads(int ranks, const Measure& measure);

// Ranks as processes: `tutti run -n ranks -- tutti WORKER... --worker-result FILE`, where tutti is this program and
// WORKER a subcommand and its flags. Throws Error(system_error) when they fail; they have then said why on standard
// error.
Outcome measure_with_processes(int ranks, const std::vector<std::string>& worker);

// This process as one rank of a launched job; rank 0 writes the outcome to `result_path`.
void measure_as_worker(const std::string& result_path, const Measure& measure);

// "--sizes" and what else a worker's command line says of an experiment.
std::vector<std::string> worker_command(const Experiment& experiment);
std::string joined(const std::vector<std::size_t>& sizes);

}  // namespace tutti::compare

// Starts the ranks of a comparison, as processes or as threads, and brings their results back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/compare/experiment.h"

namespace tutti::compare {

using Progress = std::function<void(const std::string&)>;

// Ranks as threads of this process.
Outcome measure_with_threads(int ranks, const Experiment& experiment, const Progress& progress);

// Ranks as processes: `tutti run -n ranks -- tutti compare --worker-result FILE ...`, where tutti is this program.
// Throws Error(system_error) when they fail; they have then said why on standard error.
Outcome measure_with_processes(int ranks, const Experiment& experiment);

// This process as one rank of a launched job; rank 0 writes the outcome to `result_path`.
void measure_as_worker(const Experiment& experiment, const std::string& result_path, const Progress& progress);

}  // namespace tutti::compare

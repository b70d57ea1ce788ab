// The conditions of a measurement, stated with every figure.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/experiment.h"

namespace tutti::compare {

struct Conditions {
  std::string host, cpu;
  int cores = 0;  // that this process may use
  std::string kernel, version, date, command_line;
  std::string ranks_as;  // "processes" or "threads"
  std::string type, op;
  int rounds = 0;
};

Conditions conditions_here(const Experiment& experiment, const std::string& version, const std::string& command_line,
                           bool threads);

// The share of all cores' time that programs take now, 0 to 1, while this one sleeps for a quarter of a second; 0 when
// the system does not say.
double busy_share();

// Name and value of each, in the order of a report.
std::vector<std::pair<std::string, std::string>> listed(const Conditions& conditions);

}  // namespace tutti::compare

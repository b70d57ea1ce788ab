// The data of a comparison: what is measured, and what came out. Plain data, passed from the ranks to the reports.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.h"

namespace tutti::compare {

// The planner's own choice, measured beside the forced algorithms.
inline constexpr const char* kAuto = "auto";

struct Experiment {
  std::vector<std::string> algorithms;  // empty: all that the communicator has; kAuto is always added
  std::vector<std::size_t> sizes;       // bytes, ascending
  int rounds = 7;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool bind = false;  // each rank to a core
};

// One algorithm at one size.
struct Cell {
  std::vector<double> round_us;  // a call's time in each round; empty when the algorithm does not run at this size
  std::string chosen;            // the algorithm that ran (of interest for kAuto)

  bool measured() const { return !round_us.empty(); }
  double median_us() const;
  double quartile_us(double q) const;
  double spread() const;  // interquartile range over the median
};

// Everything measured with one number of ranks.
struct Outcome {
  int ranks = 0;
  std::vector<std::size_t> sizes;
  std::vector<std::string> algorithms;   // forced ones in the communicator's order, then kAuto
  std::vector<std::vector<Cell>> cells;  // [algorithm][size]

  const Cell& at(std::size_t algorithm, std::size_t size) const { return cells[algorithm][size]; }
  std::size_t forced() const { return algorithms.size() - 1; }  // kAuto is the last
};

// "8:64M:x4" (from, to, factor), "1M:4M:+1M" (from, to, step), or "8,1K,1M". Throws Error(invalid_argument) that names
// `source`, the value and the valid forms. Ascending, without repetition.
std::vector<std::size_t> parse_sizes(std::string_view source, std::string_view text);
// "2,4,8"
std::vector<int> parse_ranks(std::string_view source, std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

// How the ranks hand their results to the process that writes the reports.
std::string to_json_text(const Outcome& outcome);
Outcome outcome_from_json_text(const std::string& text);

}  // namespace tutti::compare

// The table of a *_perf program on standard output: nccl-tests' columns, and ours behind --more.
#pragma once

#include <string>

#include "bench/perf/measure.h"

namespace tutti::perf {

struct Bandwidth {
  double algorithm;  // GB/s: bytes / time
  double bus;        // GB/s: times the collective's bus factor
};
Bandwidth bandwidth(std::size_t bytes, double time_us, double bus_factor);

// Sums over all rows: the footer, the JSON's totals and the exit status.
struct Totals {
  double wrong = 0;
  double out_of_bounds = 0;
  double bus_bandwidth = 0;  // summed over both sides of all rows
  int sides = 0;

  void add(const Row& row, double bus_factor);
  double average_bus_bandwidth() const { return sides == 0 ? 0 : bus_bandwidth / sides; }
  bool good() const { return wrong == 0 && out_of_bounds == 0; }
};

// Statistics of the times of single calls.
struct CallStatistics {
  double min, max, mean, p50, p95, p99, deviation;
  double spread_percent;  // interquartile range over the median
  double variation_percent() const { return mean > 0 ? 100 * deviation / mean : 0; }
};
CallStatistics statistics_of(const std::vector<double>& call_us);

// `value` in `width` characters with as many decimals as fit, at most two.
std::string fitted(double value, int width);

std::string now_text();  // "2025-01-31 12:34:56", local time

std::string table_header(const Options& options);
std::string table_row(const Row& row, const Options& options, double bus_factor);
std::string table_footer(const Totals& totals, const std::string& program);

}  // namespace tutti::perf

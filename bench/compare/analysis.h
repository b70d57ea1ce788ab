// What a set of measured curves says: which algorithm leads where, where the lead changes, what each costs.
#pragma once

#include <optional>
#include <vector>

#include "bench/compare/experiment.h"

namespace tutti::compare {

// time = alpha + bytes / beta: the latency of a call of no bytes, and the rate at which its bytes move.
struct Fit {
  double alpha_us = 0;
  double us_per_byte = 0;
  double rms_error = 0;         // root mean square of (fitted - measured) / measured
  double worst_error = 0;       // the signed relative error of the greatest magnitude
  std::size_t worst_bytes = 0;  // where it is

  double gb_per_s() const { return us_per_byte > 0 ? 1e-3 / us_per_byte : 0; }
  double at(double bytes) const { return alpha_us + us_per_byte * bytes; }
};

// Weighted least squares on the relative error, so that small messages count as much as large ones; neither alpha nor
// 1/beta is negative. Nothing for fewer than two points.
std::optional<Fit> fit_line(const std::vector<double>& bytes, const std::vector<double>& time_us);
std::optional<Fit> fit_of(const Outcome& outcome, std::size_t algorithm);

// The bytes at which the curve through (x0, a0), (x1, a1) meets the one through (x0, b0), (x1, b1), both straight on
// logarithmic axes; nothing when they do not cross there.
std::optional<double> crossing(double x0, double x1, double a0, double a1, double b0, double b1);

// The forced algorithm with the least median at a size; nothing when none was measured there.
std::optional<std::size_t> fastest(const Outcome& outcome, std::size_t size);

// A run of sizes with one leader. A lead changes hands only where the old leader is slower by more than the noise: the
// larger of 5% and the interquartile range of either.
struct Lead {
  std::size_t algorithm;
  std::size_t first_size, last_size;  // indices
  double from_bytes;                  // the crossover that begins it; the first size for the first lead
};
std::vector<Lead> leads(const Outcome& outcome);

// The automatic choice beside the best forced algorithm.
struct AutoGap {
  double worst_ratio = 1;  // auto's median over the best forced one's
  std::size_t worst_size = 0;
  double median_ratio = 1;
};
inline constexpr double kAllowedBehind = 1.1;  // of the ratio; more is marked in the reports
std::optional<AutoGap> auto_gap(const Outcome& outcome);
std::optional<double> auto_ratio(const Outcome& outcome, std::size_t size);

// The median over all cells of their spread: how much the machine was disturbed.
double typical_spread(const Outcome& outcome);

// GB/s: bytes over time, times 2 (n - 1) / n.
double bus_bandwidth(std::size_t bytes, double time_us, int ranks);

}  // namespace tutti::compare

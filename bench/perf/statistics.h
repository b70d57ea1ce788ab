// Order statistics of measured times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tutti::perf {

// The q-quantile (0 <= q <= 1), interpolated between neighbours; 0 for no values.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (position - static_cast<double>(below));
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// The distance from the first to the third quartile.
inline double interquartile_range(const std::vector<double>& values) {
  return quantile(values, 0.75) - quantile(values, 0.25);
}

inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Of the whole population.
inline double standard_deviation(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace tutti::perf

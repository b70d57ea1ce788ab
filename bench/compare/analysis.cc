#include "bench/compare/analysis.h"

#include <algorithm>
#include <cmath>

#include "bench/perf/statistics.h"

namespace tutti::compare {
namespace {

constexpr double kNoise = 0.05;  // two medians nearer than this are equal

double noise_of(const Cell& a, const Cell& b) { return std::max({kNoise, a.spread(), b.spread()}); }

// Where curves `old_leader` and `new_leader` crossed last, at or before size `index`, not before `begin`.
double crossover_before(const Outcome& outcome, std::size_t old_leader, std::size_t new_leader, std::size_t begin,
                        std::size_t index) {
  for (std::size_t i = index; i > begin; --i) {
    const Cell &a0 = outcome.at(old_leader, i - 1), &a1 = outcome.at(old_leader, i);
    const Cell &b0 = outcome.at(new_leader, i - 1), &b1 = outcome.at(new_leader, i);
    if (!a0.measured() || !a1.measured() || !b0.measured() || !b1.measured()) break;
    const auto x = crossing(static_cast<double>(outcome.sizes[i - 1]), static_cast<double>(outcome.sizes[i]),
                            a0.median_us(), a1.median_us(), b0.median_us(), b1.median_us());
    if (x) return *x;
  }
  return static_cast<double>(outcome.sizes[index]);
}

}  // namespace

std::optional<Fit> fit_line(const std::vector<double>& bytes, const std::vector<double>& time_us) {
  // Minimise the sum of w (a + b x - t)^2 with w = 1 / t^2.
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  std::size_t points = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double t = time_us[i], x = bytes[i];
    if (t <= 0) continue;
    const double weight = 1 / (t * t);
    w += weight, wx += weight * x, wxx += weight * x * x, wt += weight * t, wxt += weight * x * t;
    ++points;
  }
  const double determinant = w * wxx - wx * wx;
  if (points < 2 || determinant <= 0) return std::nullopt;
  Fit fit;
  fit.alpha_us = (wt * wxx - wx * wxt) / determinant;
  fit.us_per_byte = (w * wxt - wx * wt) / determinant;
  // With two unknowns the best non-negative solution lies on the border that the free one crossed.
  if (fit.alpha_us < 0) fit.alpha_us = 0, fit.us_per_byte = wxt / wxx;
  if (fit.us_per_byte < 0) fit.us_per_byte = 0, fit.alpha_us = wt / w;
  double squares = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (time_us[i] <= 0) continue;
    const double error = fit.at(bytes[i]) / time_us[i] - 1;
    squares += error * error;
    if (std::abs(error) > std::abs(fit.worst_error))
      fit.worst_error = error, fit.worst_bytes = static_cast<std::size_t>(bytes[i]);
  }
  fit.rms_error = std::sqrt(squares / static_cast<double>(points));
  return fit;
}

std::optional<Fit> fit_of(const Outcome& outcome, std::size_t algorithm) {
  std::vector<double> bytes, times;
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s)
    if (const Cell& cell = outcome.at(algorithm, s); cell.measured()) {
      bytes.push_back(static_cast<double>(outcome.sizes[s]));
      times.push_back(cell.median_us());
    }
  return fit_line(bytes, times);
}

std::optional<double> crossing(double x0, double x1, double a0, double a1, double b0, double b1) {
  const double before = std::log(a0) - std::log(b0), after = std::log(a1) - std::log(b1);
  if (!std::isfinite(before) || !std::isfinite(after) || before * after > 0 || before == after) return std::nullopt;
  const double share = before / (before - after);
  return std::exp(std::log(x0) + share * (std::log(x1) - std::log(x0)));
}

std::optional<std::size_t> fastest(const Outcome& outcome, std::size_t size) {
  std::optional<std::size_t> best;
  for (std::size_t a = 0; a < outcome.forced(); ++a) {
    if (!outcome.at(a, size).measured()) continue;
    if (!best || outcome.at(a, size).median_us() < outcome.at(*best, size).median_us()) best = a;
  }
  return best;
}

std::vector<Lead> leads(const Outcome& outcome) {
  std::vector<Lead> list;
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
    const auto best = fastest(outcome, s);
    if (!best) continue;
    if (list.empty()) {
      list.push_back({*best, s, s, static_cast<double>(outcome.sizes[s])});
      continue;
    }
    Lead& last = list.back();
    const Cell &held = outcome.at(last.algorithm, s), &challenger = outcome.at(*best, s);
    const bool keeps = held.measured() && held.median_us() <= challenger.median_us() * (1 + noise_of(held, challenger));
    if (keeps) {
      last.last_size = s;
      continue;
    }
    const double from = crossover_before(outcome, last.algorithm, *best, last.first_size, s);
    list.push_back({*best, s, s, from});
  }
  return list;
}

std::optional<double> auto_ratio(const Outcome& outcome, std::size_t size) {
  const auto best = fastest(outcome, size);
  const Cell& automatic = outcome.at(outcome.forced(), size);
  if (!best || !automatic.measured()) return std::nullopt;
  return automatic.median_us() / outcome.at(*best, size).median_us();
}

std::optional<AutoGap> auto_gap(const Outcome& outcome) {
  AutoGap gap{0, 0, 1};
  std::vector<double> ratios;
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
    const auto ratio = auto_ratio(outcome, s);
    if (!ratio) continue;
    ratios.push_back(*ratio);
    if (*ratio > gap.worst_ratio) gap.worst_ratio = *ratio, gap.worst_size = s;
  }
  if (ratios.empty()) return std::nullopt;
  gap.median_ratio = perf::median(ratios);
  return gap;
}

double typical_spread(const Outcome& outcome) {
  std::vector<double> spreads;
  for (const auto& row : outcome.cells)
    for (const Cell& cell : row)
      if (cell.measured()) spreads.push_back(cell.spread());
  return perf::median(spreads);
}

double bus_bandwidth(std::size_t bytes, double time_us, int ranks) {
  return time_us > 0 ? static_cast<double>(bytes) / time_us * 1e-3 * 2 * (ranks - 1) / ranks : 0;
}

}  // namespace tutti::compare

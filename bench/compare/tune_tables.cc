#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "bench/compare/plot.h"
#include "bench/compare/tune.h"
#include "tutti/error.h"

namespace tutti::compare {
namespace {

constexpr double kAsGood = 1.03;  // within this of the best, a variant that is in use already stays

// What a cell takes: the median of its rounds and one standard error of it (for values spread normally, 0.93 times
// their interquartile range over the root of their number), so that a lucky figure among many does not win.
double time_of(const Cell& cell) {
  return cell.median_us() * (1 + 0.93 * cell.spread() / std::sqrt(static_cast<double>(cell.round_us.size())));
}

planner::Variant variant_of(const std::string& text) {
  planner::Variant variant;
  variant.algorithm = planner::algorithm_of(text);
  if (const std::string wrong = parse_suffix(text.substr(variant.algorithm.size()), variant);
      !wrong.empty() || variant.geometry.slots == 0)
    throw Error(ErrorCode::internal_error, "the ranks measured '" + text + "', which is no variant " + wrong);
  return variant;
}

// Three digits are more than a measurement has, and keep the file short.
double rounded(double us) {
  if (us <= 0) return us;
  const double unit = std::pow(10.0, std::floor(std::log10(us)) - 3);
  return unit < 1 ? std::round(us / unit) / std::round(1 / unit) : std::round(us / unit) * unit;
}

// The best variant of an algorithm at a size; those with the most rounds alone compete.
std::optional<std::size_t> best_variant(const Outcome& outcome, const std::string& algorithm, std::size_t size,
                                        std::optional<std::size_t> in_use) {
  std::size_t most = 0;
  const auto its = [&](std::size_t v) { return planner::algorithm_of(outcome.algorithms[v]) == algorithm; };
  for (std::size_t v = 0; v < outcome.forced(); ++v)
    if (its(v)) most = std::max(most, outcome.at(v, size).round_us.size());
  if (most == 0) return {};
  std::optional<std::size_t> best;
  const auto competes = [&](std::size_t v) { return its(v) && outcome.at(v, size).round_us.size() == most; };
  for (std::size_t v = 0; v < outcome.forced(); ++v)
    if (competes(v) && (!best || time_of(outcome.at(v, size)) < time_of(outcome.at(*best, size)))) best = v;
  if (in_use && competes(*in_use) && time_of(outcome.at(*in_use, size)) <= kAsGood * time_of(outcome.at(*best, size)))
    return in_use;
  return best;
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string left(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string percent(double ratio) { return std::to_string(std::lround(100 * ratio)) + "%"; }

}  // namespace

std::vector<planner::Table> tables_of(const Outcome& outcome) {
  std::map<std::string, planner::Table> tables;
  for (std::size_t v = 0; v < outcome.forced(); ++v) tables[planner::algorithm_of(outcome.algorithms[v])];
  std::vector<planner::Table> found;
  for (auto& [algorithm, table] : tables) {
    table.algorithm = algorithm;
    table.ranks = outcome.ranks;
    std::optional<std::size_t> in_use;
    for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
      const auto best = best_variant(outcome, algorithm, s, in_use);
      if (!best) continue;
      in_use = best;
      const planner::Variant variant = variant_of(outcome.algorithms[*best]);
      table.points.push_back(
          {outcome.sizes[s], rounded(time_of(outcome.at(*best, s))), variant.lanes, variant.geometry});
    }
    if (!table.points.empty()) found.push_back(std::move(table));
  }
  return found;
}

std::string tuning_text(const Outcome& outcome, const std::vector<planner::Table>& tables) {
  std::string text = "\n" + std::to_string(outcome.ranks) + " ranks:\n" + right("up to", 10) + "   " +
                     left("chosen", 28) + right("us", 9) + right("spread", 8) + "   " + left("runner-up", 18) +
                     right("us", 9) + right("behind", 8) + "   " + left("model's choice", 18) + right("us", 9) +
                     right("gain", 7) + "\n";
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
    const planner::Table *chosen = nullptr, *next = nullptr;
    const auto at = [&](const planner::Table& table) { return table.at(outcome.sizes[s]); };
    for (const planner::Table& table : tables) {
      if (chosen == nullptr || at(table).us < at(*chosen).us)
        next = std::exchange(chosen, &table);
      else if (next == nullptr || at(table).us < at(*next).us)
        next = &table;
    }
    if (chosen == nullptr) continue;
    const planner::Point point = at(*chosen);
    const std::string variant = to_text(planner::Variant{chosen->algorithm, point.lanes, point.geometry});
    text += right(bytes_text(static_cast<double>(outcome.sizes[s])), 10) + "   " + left(variant, 28) +
            right(number_text(point.us), 9);
    const auto index = std::find(outcome.algorithms.begin(), outcome.algorithms.end(), variant);
    text += right(index == outcome.algorithms.end()
                      ? "-"
                      : percent(outcome.at(static_cast<std::size_t>(index - outcome.algorithms.begin()), s).spread()),
                  8);
    text += "   " + left(next == nullptr ? "-" : next->algorithm, 18) +
            right(next == nullptr ? "-" : number_text(at(*next).us), 9) +
            right(next == nullptr ? "-" : percent(at(*next).us / point.us - 1), 8);
    const Cell& model = outcome.at(outcome.forced(), s);
    text += "   " + left(model.chosen, 18) + right(number_text(time_of(model)), 9) +
            right(percent(1 - point.us / time_of(model)), 7) + "\n";
  }
  return text;
}

}  // namespace tutti::compare

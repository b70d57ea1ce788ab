#include "src/planner/profile.h"

#include <algorithm>
#include <cmath>

#include "tutti/types.h"

namespace tutti::planner {
namespace {

// Of the line through two points, not negative: noise that makes larger calls faster is not carried on.
double slope_of(const Point& a, const Point& b) {
  return std::max(0.0, (b.us - a.us) / static_cast<double>(b.bytes - a.bytes));
}

double between(const Point& a, const Point& b, double bytes) {
  const double from = std::log(static_cast<double>(a.bytes)), to = std::log(static_cast<double>(b.bytes));
  const double share = (std::log(bytes) - from) / (to - from);
  return std::exp(std::log(a.us) + share * (std::log(b.us) - std::log(a.us)));
}

}  // namespace

Point Table::at(std::size_t bytes) const {
  const auto upper = std::lower_bound(points.begin(), points.end(), bytes,
                                      [](const Point& point, std::size_t size) { return point.bytes < size; });
  const Point& nearest = upper == points.end() ? points.back() : *upper;
  Point found = nearest;
  found.bytes = bytes;
  if (nearest.bytes == bytes) return found;
  const auto size = static_cast<double>(bytes), known = static_cast<double>(nearest.bytes);
  const bool single = points.size() == 1;
  if (upper == points.end())
    found.us =
        single ? nearest.us * size / known : nearest.us + slope_of(points[points.size() - 2], nearest) * (size - known);
  else if (upper == points.begin())  // never faster per byte than the smallest that was measured
    found.us = single ? nearest.us
                      : std::max(nearest.us * size / known, nearest.us + slope_of(nearest, points[1]) * (size - known));
  else
    found.us = between(*(upper - 1), *upper, size);
  return found;
}

const Table* Profile::find(std::string_view collective, std::string_view algorithm, int ranks) const {
  for (const Table& table : tables)
    if (table.collective == collective && table.algorithm == algorithm && table.ranks == ranks) return &table;
  return nullptr;
}

const Table* Profile::nearest(std::string_view collective, std::string_view algorithm, int ranks) const {
  const Table* best = nullptr;
  const auto distance = [&](const Table& table) {
    return std::abs(std::log(static_cast<double>(table.ranks)) - std::log(static_cast<double>(ranks)));
  };
  for (const Table& table : tables) {
    if (table.collective != collective || table.algorithm != algorithm) continue;
    if (best == nullptr || distance(table) < distance(*best) ||
        (distance(table) == distance(*best) && table.ranks < best->ranks))
      best = &table;
  }
  return best;
}

Profile Profile::reduced_to(int ranks) const {
  Profile reduced = *this;
  std::erase_if(reduced.tables,
                [&](const Table& table) {  // addresses differ from those in `tables`, contents do not
                  const Table* kept = nearest(table.collective, table.algorithm, ranks);
                  return kept->ranks != table.ranks;
                });
  return reduced;
}

std::string mismatch(const Profile& profile, const Machine& here) {
  if (profile.tables.empty() || alike(profile.machine, here)) return {};
  return "profile " + profile.file + " was measured on " + in_words(profile.machine) + ", but this is " +
         in_words(here) + "; it is used all the same: measure anew with `tutti tune`, or set TUTTI_PROFILE=none";
}

}  // namespace tutti::planner

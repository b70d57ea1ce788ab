// A picture of Schedules, for people who learn how they work: for a ring the ranks on a circle, for trees the trees,
// and for every schedule a space-time diagram (ranks from left to right, time downwards, an arrow for every message).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

// A self-contained SVG document. Throws Error(invalid_argument) when there are more than kMostDrawnRanks ranks, or more
// Steps than a picture can show.
std::string render_svg(const Schedule& schedule);

// Several schedules beside each other, drawn smaller and without words, for comparison.
std::string render_svg(std::span<const Schedule> schedules);

inline constexpr int kMostDrawnRanks = 32;
inline constexpr int kMostDrawnSteps = 20'000;

}  // namespace tutti::schedule

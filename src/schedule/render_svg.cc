#include "src/schedule/render_svg.h"

#include <algorithm>
#include <cmath>

#include "src/schedule/draw_parts.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

constexpr double kMargin = 28;

void check(const Schedule& schedule) {
  std::size_t steps = 0;
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes) steps += lane.size();
  if (schedule.ranks > kMostDrawnRanks || steps > kMostDrawnSteps)
    throw Error(ErrorCode::invalid_argument,
                "a picture of " + std::to_string(schedule.ranks) + " ranks and " + std::to_string(steps) +
                    " steps would be too large to read; at most " + std::to_string(kMostDrawnRanks) + " ranks and " +
                    std::to_string(kMostDrawnSteps) + " steps are drawn (the text has no such limit)");
}

// What there is to count: rounds of messages, and what the busiest rank sends, as a share of the data.
std::vector<std::string> facts(const Timeline& timeline) {
  const Schedule& schedule = timeline.schedule();
  std::vector<double> sent(static_cast<std::size_t>(schedule.ranks), 0);
  std::vector<int> messages(sent.size(), 0);
  const double chunks = std::max({1, schedule.input_chunks, schedule.output_chunks});
  for (int id = 0; id < timeline.wiring().size(); ++id) {
    if (timeline.wiring().sends_through(id) < 0) continue;
    const auto rank = static_cast<std::size_t>(timeline.wiring().place(id).rank);
    sent[rank] += timeline.wiring().step(id).chunks / chunks;
    ++messages[rank];
  }
  const double most = *std::max_element(sent.begin(), sent.end());
  std::vector<std::string> lines;
  const auto counted = [](int count) { return std::to_string(count) + (count == 1 ? " message" : " messages"); };
  lines.push_back(counted(timeline.end()) + " one after another");
  if (schedule.collective != Collective::barrier)
    lines.push_back("the busiest rank sends " + svg_number(most) + " times the data, in " +
                    counted(*std::max_element(messages.begin(), messages.end())));
  return lines;
}

double draw_facts(Svg& svg, const Timeline& timeline) {
  double y = 12;
  for (const std::string& line : facts(timeline)) {
    svg.text({0, y}, line, "body");
    y += 18;
  }
  return y;
}

Size draw_picture(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, double width) {
  if (timeline.schedule().ranks < 2) return {};
  if (!ring.empty() && timeline.schedule().name == "ring") return draw_ring(svg, timeline, ring, width);
  if (timeline.schedule().name == "tree") return draw_trees(svg, timeline, width);
  return {};
}

}  // namespace

std::string render_svg(const Schedule& schedule) {
  check(schedule);
  const Timeline timeline(schedule);
  const std::vector<int> ring = ring_of(schedule);
  constexpr double kPictureWidth = 380;
  Svg svg;
  svg.origin = {kMargin, kMargin};
  svg.text({0, 16}, title_of(schedule), "title");
  svg.origin.y += 38;
  const Size picture = draw_picture(svg, timeline, ring, kPictureWidth);
  svg.origin.y += picture.height > 0 ? picture.height + 18 : 0;
  svg.origin.y += draw_facts(svg, timeline) + 16;
  svg.origin.y += draw_legend(svg, timeline, true).height;
  const double left_height = svg.origin.y;
  svg.origin = {kMargin + (picture.height > 0 ? kPictureWidth : 320) + 20, kMargin};
  const Size diagram = draw_space_time(svg, timeline, ring.size() > 2 ? ring : std::vector<int>{}, {});
  return svg.document(
      {svg.origin.x + diagram.width + kMargin, std::max(left_height, svg.origin.y + diagram.height) + kMargin},
      title_of(schedule));
}

std::string render_svg(std::span<const Schedule> schedules) {
  if (schedules.size() == 1) return render_svg(schedules.front());
  constexpr double kPictureWidth = 430, kBetween = 44;
  Svg svg;
  std::string title;
  // Pictures first, so that the diagrams below them start at one height.
  std::vector<double> lefts;
  double left = kMargin, picture_height = 0;
  for (const Schedule& schedule : schedules) {
    check(schedule);
    title += (title.empty() ? "" : "; ") + title_of(schedule);
    const Timeline timeline(schedule);
    const std::vector<int> ring = ring_of(schedule);
    svg.origin = {left, kMargin};
    svg.text({0, 16}, title_of(schedule), "title");
    svg.origin.y += 28;
    svg.origin.y += draw_facts(svg, timeline) + 12;
    picture_height = std::max(picture_height, svg.origin.y + draw_picture(svg, timeline, ring, kPictureWidth).height);
    Svg ruler;  // drawn only to know its size
    lefts.push_back(left);
    left +=
        std::max(kPictureWidth, draw_space_time(ruler, timeline, ring, {.words = false, .gap = 26}).width) + kBetween;
  }
  double bottom = 0, shortest = 1e9, legend_left = 0;
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const Timeline timeline(schedules[i]);
    svg.origin = {lefts[i], picture_height + 14};
    const double end =
        svg.origin.y + draw_space_time(svg, timeline, ring_of(schedules[i]), {.words = false, .gap = 26}).height;
    bottom = std::max(bottom, end);
    if (end < shortest) shortest = end, legend_left = lefts[i];
  }
  svg.origin = {legend_left + 40, shortest + 30};
  bottom = std::max(bottom, svg.origin.y + draw_legend(svg, Timeline(schedules.front()), false).height);
  return svg.document({left - kBetween + kMargin, bottom + kMargin}, title);
}

}  // namespace tutti::schedule

// The parts of which render_svg composes its pictures. Each draws at Svg::origin and answers how much room it took.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/svg.h"
#include "src/schedule/timeline.h"

namespace tutti::schedule {

// Colours of chunks: neighbours differ, all are equally light.
struct Palette {
  int chunks = 1;
  std::string full(int chunk) const { return svg_colour(0.72, 0.15, hue(chunk)); }    // complete, and arrows
  std::string part(int chunk) const { return svg_colour(0.81, 0.115, hue(chunk)); }   // has been added
  std::string empty(int chunk) const { return svg_colour(0.955, 0.03, hue(chunk)); }  // what is still to be added
  std::string edge(int chunk) const { return svg_colour(0.62, 0.135, hue(chunk)); }

 private:
  double hue(int chunk) const { return 25 + 360.0 * (chunk % chunks) / chunks; }
};
Palette palette_of(const Schedule& schedule);

// A square for a chunk, filled from below by the share of the ranks that it is the sum of.
inline constexpr double kChip = 19;
void draw_chip(Svg& svg, Point corner, const Palette& palette, int chunk, double complete);

// The ranks in the order of the ring that the ports of channel 0 form; empty when they form none.
std::vector<int> ring_of(const Schedule& schedule);

Size draw_ring(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, double width);
Size draw_trees(Svg& svg, const Timeline& timeline, double width);

struct SpaceTimeStyle {
  bool words = true;  // what each rank does, above its chunks
  double gap = 36;    // between two rows, where the arrows are
};
Size draw_space_time(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, const SpaceTimeStyle& style);

Size draw_legend(Svg& svg, const Timeline& timeline, bool words);

}  // namespace tutti::schedule

#include "src/schedule/draw_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

#include "src/schedule/collectives.h"

namespace tutti::schedule {
namespace {

std::string stroke(const std::string& colour) { return "class=\"arrow\" stroke=\"" + colour + "\""; }

// A tree as the messages of one chunk form it.
struct DrawnTree {
  int chunk = 0;
  int root = 0;
  std::map<int, std::vector<int>> children;
  std::set<std::pair<int, int>> up, down;  // (from, to) of partial and of complete messages
  std::map<int, Point> place;              // x in units of leaves, y in levels
  double leaves = 0;
  double levels = 0;
};

void place_subtree(DrawnTree& tree, int node, int level) {
  tree.levels = std::max(tree.levels, static_cast<double>(level));
  const std::vector<int>& children = tree.children[node];
  double sum = 0;
  for (const int child : children) {
    place_subtree(tree, child, level + 1);
    sum += tree.place[child].x;
  }
  const double x = children.empty() ? tree.leaves++ : sum / static_cast<double>(children.size());
  tree.place[node] = {x, static_cast<double>(level)};
}

// Nothing when the messages of this chunk form no tree that spans all ranks.
std::optional<DrawnTree> tree_of(const Timeline& timeline, int chunk) {
  DrawnTree tree;
  tree.chunk = chunk;
  std::map<int, int> parent;
  const auto adopt = [&](int mother, int child) {
    const auto [known, added] = parent.emplace(child, mother);
    if (added) tree.children[mother].push_back(child);
    return known->second == mother;
  };
  for (const Timeline::Message& message : timeline.messages()) {
    const Timeline::Moment& moment = timeline.moment(message.from);
    if (moment.first_chunk != chunk) continue;
    const int from = timeline.wiring().place(message.from).rank, to = timeline.wiring().place(message.to).rank;
    (moment.is_complete() ? tree.down : tree.up).insert({from, to});
    if (!(moment.is_complete() ? adopt(from, to) : adopt(to, from))) return {};
  }
  if (static_cast<int>(parent.size()) != timeline.schedule().ranks - 1) return {};
  while (parent.contains(tree.root)) tree.root = parent[tree.root];
  for (auto& [mother, children] : tree.children) std::sort(children.begin(), children.end());
  place_subtree(tree, tree.root, 0);
  return static_cast<int>(tree.place.size()) == timeline.schedule().ranks ? std::optional(tree) : std::nullopt;
}

constexpr double kLevel = 62, kLeaf = 42, kMargin = 20;

Size draw_tree(Svg& svg, const DrawnTree& tree, const Palette& palette, double leaf) {
  const double radius = std::min(14.0, leaf * 0.42);
  const double top = 40;
  const auto where = [&](int rank) {
    const Point place = tree.place.at(rank);
    return Point{kMargin + place.x * leaf, top + radius + place.y * kLevel};
  };
  svg.text({0, 14}, "tree of chunk " + std::to_string(tree.chunk), "heading");
  if (palette.chunks > 1) svg.text({0, 29}, "1/" + std::to_string(palette.chunks) + " of the data", "small");
  const std::string colour = palette.edge(tree.chunk);
  for (const auto& [from, to] : tree.up) svg.arrow(where(from), where(to), radius, 4, colour);
  for (const auto& [from, to] : tree.down) svg.arrow(where(from), where(to), radius, 4, colour, true);
  for (const auto& [rank, place] : tree.place) {
    svg.circle(where(rank), radius, "class=\"node\"");
    svg.text({where(rank).x, where(rank).y + 4}, std::to_string(rank), "rank", "middle");
  }
  return {2 * kMargin + (tree.leaves - 1) * leaf, top + 2 * radius + tree.levels * kLevel + 12};
}

}  // namespace

Palette palette_of(const Schedule& schedule) { return {std::max({schedule.input_chunks, schedule.output_chunks, 1})}; }

void draw_chip(Svg& svg, Point corner, const Palette& palette, int chunk, double complete) {
  svg.rect(corner, {kChip, kChip}, 4, "fill=\"" + palette.empty(chunk) + "\"");
  const double filled = kChip * complete;
  if (complete >= 1)
    svg.rect(corner, {kChip, kChip}, 4, "fill=\"" + palette.full(chunk) + "\"");
  else if (filled > 0)
    svg.rect({corner.x, corner.y + kChip - filled}, {kChip, filled}, std::min(4.0, filled / 2),
             "fill=\"" + palette.part(chunk) + "\"");
  svg.rect(corner, {kChip, kChip}, 4, "fill=\"none\" stroke-width=\"1.2\" stroke=\"" + palette.edge(chunk) + "\"");
  svg.text({corner.x + kChip / 2, corner.y + kChip / 2 + 3.8}, std::to_string(chunk), "chip", "middle");
}

std::vector<int> ring_of(const Schedule& schedule) {
  std::map<int, int> next;
  for (const Port& port : schedule.ports) {
    if (port.channel != 0) continue;
    if (port.readers.size() != 1 || !next.emplace(port.writer, port.readers.front()).second) return {};
  }
  std::vector<int> ring;
  for (int rank = 0; next.contains(rank) && static_cast<int>(ring.size()) < schedule.ranks; rank = next[rank]) {
    if (rank == 0 && !ring.empty()) return {};
    ring.push_back(rank);
  }
  return schedule.ranks > 1 && static_cast<int>(ring.size()) == schedule.ranks && next[ring.back()] == 0
             ? ring
             : std::vector<int>{};
}

Size draw_ring(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, double width) {
  const auto ranks = static_cast<double>(ring.size());
  const double node = ranks > 20 ? 11 : 16;
  const double radius = std::clamp(ranks * (node * 2 + 40) / (2 * std::numbers::pi), 62.0, width / 2 - node - 34);
  const double half = radius + node + 30;
  const Point centre{width / 2, half};
  const auto on_circle = [&](double position, double distance) {
    const double angle = 2 * std::numbers::pi * position / ranks - std::numbers::pi / 2;
    return Point{centre.x + distance * std::cos(angle), centre.y + distance * std::sin(angle)};
  };
  const Palette palette = palette_of(timeline.schedule());
  std::map<int, int> position;
  for (std::size_t i = 0; i < ring.size(); ++i) position[ring[i]] = static_cast<int>(i);
  bool two_ways = ring.size() == 2;
  for (const Port& port : timeline.schedule().ports) two_ways = two_ways || port.channel % 2 == 1;

  std::set<std::pair<int, int>> drawn;
  for (const Timeline::Message& message : timeline.messages()) {
    if (timeline.moment(message.from).time != 0) continue;
    const int from = timeline.wiring().place(message.from).rank, to = timeline.wiring().place(message.to).rank;
    const int chunk = timeline.moment(message.from).first_chunk;
    if (!drawn.insert({from, to}).second) continue;
    const Point a = on_circle(position[from], radius), b = on_circle(position[to], radius);
    svg.arrow(a, b, node, two_ways ? 6 : 0, palette.edge(chunk));
    // The chip of the first message stands beside its arrow: outside for one direction, inside for the other.
    const bool forward = ring.size() == 2 || (position[from] + 1) % static_cast<int>(ring.size()) == position[to];
    const double along = forward ? position[from] + 0.5 : position[to] + 0.5;
    const double middle = radius * std::cos(std::numbers::pi / ranks);
    const double away = ring.size() == 2 ? 24 : forward ? middle + 20 : middle - 22;
    const Point chip = on_circle(along, away);
    draw_chip(svg, {chip.x - kChip / 2, chip.y - kChip / 2}, palette, chunk, timeline.moment(message.from).complete);
  }
  for (const int rank : ring) {
    const Point place = on_circle(position[rank], radius);
    svg.circle(place, node, "class=\"node\"");
    svg.text({place.x, place.y + 4}, std::to_string(rank), "rank", "middle");
  }
  if (ring.size() > 4 && !two_ways) {
    svg.text({centre.x, centre.y - 1}, "first messages", "small", "middle");
    svg.text({centre.x, centre.y + 13}, "(time 0)", "small", "middle");
  }
  return {width, 2 * half};
}

Size draw_trees(Svg& svg, const Timeline& timeline, double width) {
  std::vector<DrawnTree> trees;
  for (int chunk = 0; chunk < 2; ++chunk)
    if (auto tree = tree_of(timeline, chunk)) trees.push_back(std::move(*tree));
  if (trees.empty()) return {};
  const Palette palette = palette_of(timeline.schedule());
  double leaves = 0, most = 1;
  for (const DrawnTree& tree : trees) {
    leaves += tree.leaves;
    most = std::max(most, tree.leaves);
  }
  const auto count = static_cast<double>(trees.size());
  const bool beside = (leaves - count) * kLeaf + count * (2 * kMargin + 20) <= width;
  const double leaf = std::min(kLeaf, (width - 2 * kMargin) / std::max(1.0, most - 1));
  const Point origin = svg.origin;
  Size used;
  for (const DrawnTree& tree : trees) {
    const Size size = draw_tree(svg, tree, palette, leaf);
    if (beside) {
      const double step = std::max(size.width, 150.0) + 20;
      used = {used.width + step, std::max(used.height, size.height)};
      svg.origin.x += step;
    } else {
      used = {std::max(used.width, size.width), used.height + size.height + 8};
      svg.origin.y += size.height + 8;
    }
  }
  svg.origin = origin;
  double y = used.height + 4;
  const std::string colour = palette.edge(trees.front().chunk);
  if (!trees.front().up.empty()) {
    svg.arrow({0, y}, {34, y}, 0, 0, colour);
    svg.text({42, y + 4}, "up: contributions", "small");
  }
  const double x = trees.front().up.empty() ? 0 : 150;
  svg.arrow({x, y}, {x + 34, y}, 0, 0, colour, true);
  svg.text({x + 42, y + 4}, "down: the result", "small");
  return {used.width, used.height + 20};
}

Size draw_legend(Svg& svg, const Timeline& timeline, bool words) {
  const Palette palette = palette_of(timeline.schedule());
  const Collective collective = timeline.schedule().collective;
  const int ranks = timeline.schedule().ranks;
  const bool sums = traits_of(collective).reduces || collective == Collective::barrier;
  svg.text({0, 12}, "How to read it", "heading");
  double y = 24;
  const auto chip = [&](double complete, const std::string& meaning) {
    draw_chip(svg, {0, y}, palette, 0, complete);
    svg.text({30, y + 13.5}, meaning, "body");
    y += 25;
  };
  if (sums && ranks > 1) {
    chip(1.0 / ranks, "chunk 0, one rank's own values");
    if (ranks > 2) chip(0.5, "the sum over half of the ranks so far");
    chip(1, "complete: the sum over all ranks");
  } else {
    chip(1, "chunk 0");
  }
  svg.path("M" + svg.at({0, y + 10}) + "L" + svg.at({18, y + 10}), stroke(palette.edge(0)));
  svg.arrow({0, y + 10}, {22, y + 10}, 0, 0, palette.edge(0));
  svg.text({30, y + 14}, "a message, in its chunk's colour", "body");
  y += 25;
  if (!words) return {270, y};
  const std::pair<const char*, const char*> meanings[] = {{"send", "to the ranks that the arrows lead to"},
                                                          {"add", "the rank's own values to those that arrive"},
                                                          {"keep", "the result, in the output buffer"},
                                                          {"copy", "the rank's own values to the output buffer"}};
  std::string used;
  for (int id = 0; id < timeline.wiring().size(); ++id) used += timeline.words(id) + ",";
  for (const auto& [word, meaning] : meanings) {
    if (used.find(word) == std::string::npos) continue;
    svg.text({0, y + 13}, word, "body", "start", "font-weight=\"700\"");
    svg.text({42, y + 13}, meaning, "body");
    y += 20;
  }
  return {300, y};
}

}  // namespace tutti::schedule

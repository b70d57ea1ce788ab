// The space-time diagram: a column for every rank, a row for every tick, in each cell what the rank does then, and an
// arrow for every message from the cell that sends to the cell that takes it.
#include <algorithm>
#include <cmath>
#include <map>

#include "src/schedule/draw_parts.h"

namespace tutti::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr int kChipsPerLine = 4;
constexpr int kMostChips = 16;  // of one Step; more are drawn as one wide chip
constexpr double kChipStep = kChip + 3;
constexpr double kWordLine = 14;
constexpr double kPadding = 6;
constexpr double kCharacter = 5.7;  // width of a small letter, about
constexpr double kPhaseWidth = 112;
constexpr double kTimeWidth = 22;
constexpr double kStub = 26;  // room at both sides for arrows that go round the ring
constexpr double kHeader = 34;

// Steps of one cell that do the same, drawn as one line of words and lines of chips.
struct Group {
  std::string words;
  std::vector<int> ids;
};

struct Cell {
  std::vector<Group> groups;
  double height = 0;
};

class Diagram {
 public:
  Diagram(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, const SpaceTimeStyle& style)
      : svg_(svg),
        timeline_(timeline),
        wiring_(timeline.wiring()),
        style_(style),
        palette_(palette_of(timeline.schedule())),
        is_ring_(ring.size() > 2),
        column_of_(at(timeline.schedule().ranks)) {
    ranks_ = ring;
    if (ranks_.empty())
      for (int rank = 0; rank < timeline.schedule().ranks; ++rank) ranks_.push_back(rank);
    for (std::size_t column = 0; column < ranks_.size(); ++column)
      column_of_[at(ranks_[column])] = static_cast<int>(column);
    fill_cells();
    measure();
  }

  Size draw() {
    draw_frame();
    std::map<int, int> arrived;  // by Step: arrows that end there so far
    for (const Timeline::Message& message : timeline_.messages()) draw_message(message, arrived[message.to]++);
    for (int row = 0; row <= timeline_.end(); ++row)
      for (std::size_t column = 0; column < ranks_.size(); ++column) draw_cell(row, static_cast<int>(column));
    return {right() + (is_ring_ ? kStub : 0), row_top_.back() + row_height_.back() + 4};
  }

 private:
  void fill_cells() {
    cells_.assign(at(timeline_.end() + 1), std::vector<Cell>(ranks_.size()));
    for (int id = 0; id < wiring_.size(); ++id) {
      Cell& cell = cells_[at(timeline_.moment(id).time)][at(column_of_[at(wiring_.place(id).rank)])];
      const std::string words = style_.words ? timeline_.words(id) : "";
      auto group =
          std::find_if(cell.groups.begin(), cell.groups.end(), [&](const Group& g) { return g.words == words; });
      if (group == cell.groups.end()) group = cell.groups.insert(group, {words, {}});
      group->ids.push_back(id);
    }
  }

  int chips_of(int id) const {
    const int chunks = wiring_.step(id).chunks;
    return chunks > kMostChips ? kChipsPerLine : chunks;
  }
  int chips_of(const Group& group) const {
    int chips = 0;
    for (const int id : group.ids) chips += chips_of(id);
    return chips;
  }

  // Rows with many messages between them stand further apart.
  double gap_below(int row) const {
    const auto sent = std::count_if(timeline_.messages().begin(), timeline_.messages().end(),
                                    [&](const auto& message) { return timeline_.moment(message.from).time == row; });
    return style_.gap +
           std::clamp(1.2 * (static_cast<double>(sent) - 2.0 * static_cast<double>(ranks_.size())), 0.0, 110.0);
  }

  void measure() {
    double content = style_.words ? 44 : kChip;
    for (auto& row : cells_) {
      double height = 0;
      for (Cell& cell : row) {
        cell.height = 2 * kPadding - 3;
        for (const Group& group : cell.groups) {
          const int chips = chips_of(group);
          content = std::max({content, kCharacter * static_cast<double>(group.words.size()),
                              std::min(chips, kChipsPerLine) * kChipStep - 3});
          const int lines = (chips + kChipsPerLine - 1) / kChipsPerLine;
          cell.height += (style_.words ? kWordLine : 0) + lines * kChipStep;
        }
        if (!cell.groups.empty()) height = std::max(height, cell.height);
      }
      row_top_.push_back(row_top_.empty()
                             ? kHeader
                             : row_top_.back() + row_height_.back() + gap_below(static_cast<int>(row_top_.size()) - 1));
      row_height_.push_back(height);
    }
    width_ = content + 2 * kPadding;
    step_ = width_ + 10;
    left_ = kPhaseWidth + kTimeWidth + (is_ring_ ? kStub : 0);
  }

  double column_left(int column) const { return left_ + column * step_; }
  double right() const { return column_left(static_cast<int>(ranks_.size()) - 1) + width_; }

  void draw_frame() {
    for (std::size_t column = 0; column < ranks_.size(); ++column) {
      const double x = column_left(static_cast<int>(column)) + width_ / 2;
      svg_.text({x, 12}, (style_.words ? "rank " : "") + std::to_string(ranks_[column]), "rank", "middle");
      svg_.path("M" + svg_.at({x, 20}) + "L" + svg_.at({x, row_top_.back()}),
                "class=\"line\" stroke-dasharray=\"1 4\"");
    }
    svg_.text({kPhaseWidth + 14, 12}, "time", "small", "end");
    for (int row = 0; row <= timeline_.end(); ++row)
      svg_.text({kPhaseWidth + 14, row_top_[at(row)] + row_height_[at(row)] / 2 + 4}, std::to_string(row), "small",
                "end");
    for (int row = 0, begin = 0; row < timeline_.end(); ++row) {
      const std::string phase = timeline_.phase(row);
      if (row + 1 < timeline_.end() && timeline_.phase(row + 1) == phase) continue;
      const double top = row_top_[at(begin)] + row_height_[at(begin)] / 2 + 5;
      const double bottom = row_top_[at(row + 1)] + row_height_[at(row + 1)] / 2 - 5;
      draw_phase(phase, top, bottom);
      begin = row + 1;
    }
  }

  // A bracket with one or two lines of text at its left.
  void draw_phase(const std::string& phase, double top, double bottom) {
    if (phase.empty()) return;
    const double x = kPhaseWidth - 6;
    svg_.path("M" + svg_.at({x, top}) + "L" + svg_.at({x - 5, top}) + "L" + svg_.at({x - 5, bottom}) + "L" +
                  svg_.at({x, bottom}),
              "class=\"line\" stroke-width=\"1.5\"");
    const double middle = (top + bottom) / 2 + 4;
    const std::size_t plus = phase.find(" + ");
    if (plus == std::string::npos) {
      svg_.text({x - 11, middle}, phase, "heading", "end");
    } else {
      svg_.text({x - 11, middle - 7}, phase.substr(0, plus) + " +", "heading", "end");
      svg_.text({x - 11, middle + 9}, phase.substr(plus + 3), "heading", "end");
    }
  }

  // Where a Step's chips are in its cell, from left to right.
  double middle_of(int id) const {
    const Cell& cell = cells_[at(timeline_.moment(id).time)][at(column_of_[at(wiring_.place(id).rank)])];
    const double left = column_left(column_of_[at(wiring_.place(id).rank)]);
    for (const Group& group : cell.groups) {
      int before = 0;
      for (const int other : group.ids) {
        if (other == id) {
          const int first = before % kChipsPerLine;
          const int chips = std::min(chips_of(id), kChipsPerLine - first);
          return left + line_indent(group, before) + (first + chips / 2.0) * kChipStep - 1.5;
        }
        before += chips_of(other);
      }
    }
    return left;
  }

  // Chips of a line are centred in the cell.
  double line_indent(const Group& group, int chip) const {
    const int line = chip / kChipsPerLine;
    const int chips = std::min(chips_of(group) - line * kChipsPerLine, kChipsPerLine);
    return (width_ - (chips * kChipStep - 3)) / 2;
  }

  void draw_message(const Timeline::Message& message, int arrived) {
    const auto& from = timeline_.moment(message.from);
    const auto& to = timeline_.moment(message.to);
    const int chunk = from.first_chunk;
    const std::string colour = palette_.edge(chunk);
    const auto senders = wiring_.senders(message.to);
    const auto arrows = std::count_if(senders.begin(), senders.end(), [](int sender) { return sender >= 0; });
    const double spread = arrows < 2 ? 0 : std::min(8.0, (width_ - 10) / static_cast<double>(arrows - 1));
    const double shift = (arrived - static_cast<double>(arrows - 1) / 2) * spread;
    const Point begin{middle_of(message.from), row_top_[at(from.time)] + row_height_[at(from.time)] + 1};
    const Point end{std::clamp(middle_of(message.to) + shift, column_left(column_at(message.to)) + 4,
                               column_left(column_at(message.to)) + width_ - 4),
                    row_top_[at(to.time)] - 1};
    const int columns = column_at(message.to) - column_at(message.from);
    if (is_ring_ && std::abs(columns) == static_cast<int>(ranks_.size()) - 1) {
      draw_round_the_ring(begin, end, columns < 0, colour);
    } else {
      svg_.drop(begin, end, colour);
    }
  }

  int column_at(int id) const { return column_of_[at(wiring_.place(id).rank)]; }

  // Off one side of the diagram and in at the other.
  void draw_round_the_ring(Point begin, Point end, bool to_the_right, const std::string& colour) {
    const double out = to_the_right ? right() + kStub - 8 : left_ - kStub + 8;
    const double in = to_the_right ? left_ - kStub + 8 : right() + kStub - 8;
    const double y = (begin.y + end.y) / 2;
    const auto line = "class=\"arrow\" stroke=\"" + colour + "\"";
    svg_.path(
        "M" + svg_.at(begin) + "C" + svg_.at({begin.x, y}) + " " + svg_.at({begin.x, y}) + " " + svg_.at({out, y}),
        line + " stroke-dasharray=\"none\"");
    svg_.circle({out, y}, 2.6, "fill=\"" + colour + "\"");
    svg_.circle({in, y}, 2.6, "fill=\"" + colour + "\"");
    svg_.path("M" + svg_.at({in, y}) + "C" + svg_.at({end.x, y}) + " " + svg_.at({end.x, y}) + " " +
                  svg_.at({end.x, end.y - 5}),
              line);
    svg_.arrow({end.x, end.y - 6}, {end.x, end.y + 2}, 0, 0, colour);
  }

  void draw_cell(int row, int column) {
    const Cell& cell = cells_[at(row)][at(column)];
    if (cell.groups.empty()) return;
    const double left = column_left(column);
    double y = row_top_[at(row)];
    svg_.rect({left, y}, {width_, row_height_[at(row)]}, 6, "class=\"cell\"");
    y += kPadding + (row_height_[at(row)] - cell.height) / 2;
    for (const Group& group : cell.groups) {
      if (style_.words) {
        svg_.text({left + width_ / 2, y + 8.5}, group.words, "small", "middle");
        y += kWordLine;
      }
      int chip = 0;
      for (const int id : group.ids) draw_chips(group, id, chip, left, y);
      y += (chips_of(group) + kChipsPerLine - 1) / kChipsPerLine * kChipStep;
    }
  }

  void draw_chips(const Group& group, int id, int& chip, double left, double y) {
    const auto& moment = timeline_.moment(id);
    const int chunks = wiring_.step(id).chunks;
    const auto corner = [&] {
      return Point{left + line_indent(group, chip) + chip % kChipsPerLine * kChipStep,
                   y + chip / kChipsPerLine * kChipStep};
    };
    if (chunks <= kMostChips) {
      for (int i = 0; i < chunks; ++i, ++chip)
        draw_chip(svg_, corner(), palette_, moment.first_chunk + i, moment.complete);
      return;
    }
    chip = (chip + kChipsPerLine - 1) / kChipsPerLine * kChipsPerLine;
    const Point place = corner();
    const double width = kChipsPerLine * kChipStep - 3;
    svg_.rect(place, {width, kChip}, 4, "fill=\"" + palette_.empty(moment.first_chunk) + "\"");
    svg_.rect(place, {width * moment.complete, kChip}, 4, "fill=\"" + palette_.full(moment.first_chunk) + "\"");
    svg_.text({place.x + width / 2, place.y + 13},
              std::to_string(moment.first_chunk) + " to " + std::to_string(moment.first_chunk + chunks - 1), "chip",
              "middle");
    chip += kChipsPerLine;
  }

  Svg& svg_;
  const Timeline& timeline_;
  const Wiring& wiring_;
  SpaceTimeStyle style_;
  Palette palette_;
  bool is_ring_;
  std::vector<int> ranks_;                // by column
  std::vector<int> column_of_;            // by rank
  std::vector<std::vector<Cell>> cells_;  // [time][column]
  std::vector<double> row_top_, row_height_;
  double width_ = 0, step_ = 0, left_ = 0;
};

}  // namespace

Size draw_space_time(Svg& svg, const Timeline& timeline, const std::vector<int>& ring, const SpaceTimeStyle& style) {
  return Diagram(svg, timeline, ring, style).draw();
}

}  // namespace tutti::schedule

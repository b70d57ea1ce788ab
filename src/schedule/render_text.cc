#include "src/schedule/render_text.h"

#include <algorithm>

#include "src/schedule/timeline.h"

namespace tutti::schedule {
namespace {

std::string padded(int number, std::size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::string render_text(const Schedule& schedule) {
  const Timeline timeline(schedule);
  const Wiring& wiring = timeline.wiring();
  const int chunks = schedule.output_chunks / std::max(1, schedule.output_blocks);
  std::string text = title_of(schedule) + "\n";
  if (const int blocks = std::max(schedule.input_blocks, schedule.output_blocks); blocks > 1)
    text += std::to_string(blocks) + " blocks of ";
  text += std::to_string(chunks) + (chunks == 1 ? " chunk, " : " chunks, ") +
          std::to_string(timeline.messages().size()) + " messages, " + std::to_string(timeline.end()) +
          " of them one after another\n";

  for (int time = 0, begin = 0; time < timeline.end(); ++time)
    if (time + 1 == timeline.end() || timeline.phase(time + 1) != timeline.phase(time)) {
      text += "time " + std::to_string(begin) + " to " + std::to_string(time + 1) + ": " + timeline.phase(time) + "\n";
      begin = time + 1;
    }

  int rank = -1;
  for (int id = 0; id < wiring.size(); ++id) {
    const StepPlace& place = wiring.place(id);
    if (place.rank != rank) text += "\nrank " + std::to_string(place.rank) + "\n  time  lane  step  what\n";
    rank = place.rank;
    text += "  " + padded(timeline.moment(id).time, 4) + "  " + padded(place.lane, 4) + "  " + padded(place.step, 4) +
            "  " + timeline.sentence(id) + "\n";
  }
  return text;
}

}  // namespace tutti::schedule

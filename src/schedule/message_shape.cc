#include "src/schedule/message_shape.h"

#include <algorithm>
#include <limits>

#include "src/schedule/partition.h"

namespace tutti::schedule {

MessageShape::MessageShape(const Schedule& schedule) {
  blocks = std::max({schedule.input_blocks, schedule.output_blocks, 1});
  block_chunks = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t chunks : {schedule.input_chunks / std::max(schedule.input_blocks, 1),
                                    schedule.output_chunks / std::max(schedule.output_blocks, 1),
                                    schedule.scratch_chunks / std::max(schedule.scratch_blocks, 1)})
    if (chunks > 0) block_chunks = std::min(block_chunks, chunks);
  for (const auto& program : schedule.programs)
    for (const auto& lane : program.lanes)
      for (const auto& step : lane)
        for (const auto& destination : step.out)
          if (destination.kind == Destination::Kind::send) message_chunks = std::max(message_chunks, step.chunks);
}

std::size_t MessageShape::chunk_elements(std::size_t count, std::size_t element_bytes) const {
  return largest_chunk(count, static_cast<std::size_t>(block_chunks), element_bytes);
}

std::size_t MessageShape::message_bytes(std::size_t count, std::size_t element_bytes) const {
  return element_bytes * std::min(chunk_elements(count, element_bytes) * static_cast<std::size_t>(message_chunks),
                                  count * static_cast<std::size_t>(blocks));
}

std::size_t MessageShape::slice_elements(std::size_t slot_bytes, std::size_t count, std::size_t element_bytes) const {
  const std::size_t chunk = chunk_elements(count, element_bytes);
  if (message_bytes(count, element_bytes) <= slot_bytes) return chunk;
  const std::size_t unit = kChunkAlignment / element_bytes;
  const std::size_t most_units = slot_bytes / static_cast<std::size_t>(message_chunks) / kChunkAlignment;
  const std::size_t most = std::max<std::size_t>(most_units, 1);
  const std::size_t units = chunk / unit + (chunk % unit != 0);
  const std::size_t rounds = units / most + (units % most != 0);
  return (units / rounds + (units % rounds != 0)) * unit;
}

std::size_t MessageShape::rounds(std::size_t slot_bytes, std::size_t count, std::size_t element_bytes) const {
  const std::size_t slice = slice_elements(slot_bytes, count, element_bytes);
  if (slice == 0) return 1;
  const std::size_t chunk = chunk_elements(count, element_bytes);
  return chunk / slice + (chunk % slice != 0);
}

}  // namespace tutti::schedule

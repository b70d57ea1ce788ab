// How large the messages of a schedule are, and how chunks are cut into the slices of rounds so that they fit in slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

// What the sizes of a schedule's messages follow from.
struct MessageShape {
  std::int32_t block_chunks = 1;    // the fewest chunks into which a block of any buffer is cut
  std::int32_t message_chunks = 1;  // chunks of the largest message
  std::int32_t blocks = 1;          // of the largest buffer

  MessageShape() = default;
  explicit MessageShape(const Schedule& schedule);
  // Elements of the largest chunk, and bytes of the largest message when every chunk goes in one round.
  std::size_t chunk_elements(std::size_t count, std::size_t element_bytes) const;
  std::size_t message_bytes(std::size_t count, std::size_t element_bytes) const;
  // Elements of every chunk that one round moves through slots of `slot_bytes`, and the rounds that this takes.
  std::size_t slice_elements(std::size_t slot_bytes, std::size_t count, std::size_t element_bytes) const;
  std::size_t rounds(std::size_t slot_bytes, std::size_t count, std::size_t element_bytes) const;
};

}  // namespace tutti::schedule

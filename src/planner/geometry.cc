#include "src/planner/geometry.h"

#include <algorithm>

#include "src/schedule/partition.h"

namespace tutti::planner {
namespace {

constexpr Geometry kSmall[] = {{8, 1 << 10}, {4, 8 << 10}};     // one round only
constexpr Geometry kLarge[] = {{4, 64 << 10}, {4, 256 << 10}};  // one round or more
constexpr std::uint32_t kLargestFallback = 32 << 10;            // when memory is short: powers of two from here down

// The part of a ring that is not payload; the numbers are those of src/runtime/ring.h, rounded up.
constexpr std::size_t kHeaderBytes = 64;   // per slot
constexpr std::size_t kReaderBytes = 128;  // per reader

}  // namespace

std::size_t slot_memory(const schedule::Schedule& schedule, const World& world, Geometry geometry) {
  const std::size_t slots = geometry.slots * (kHeaderBytes + geometry.slot_bytes);
  std::vector<std::size_t> bytes(static_cast<std::size_t>(schedule.ranks), 0);
  for (const schedule::Port& port : schedule.ports) {
    bytes[static_cast<std::size_t>(port.writer)] += slots + port.readers.size() * kReaderBytes;
    for (const int reader : port.readers)
      if (world.crosses_hosts(port.writer, reader)) bytes[static_cast<std::size_t>(reader)] += slots + kReaderBytes;
  }
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

std::vector<Geometry> geometries(const schedule::Schedule& schedule, const schedule::MessageShape& shape,
                                 const World& world, std::uint32_t min_slots, std::size_t count,
                                 std::size_t element_bytes) {
  const std::size_t message = shape.message_bytes(count, element_bytes);
  const std::size_t smallest =
      std::min(message, schedule::kChunkAlignment * static_cast<std::size_t>(shape.message_chunks));
  // Fewer slots, if that makes it fit; nothing when not even min_slots do.
  const auto fitted = [&](Geometry geometry) -> std::vector<Geometry> {
    for (geometry.slots = std::max(geometry.slots, min_slots);; geometry.slots /= 2) {
      geometry.slots = std::max(geometry.slots, min_slots);
      if (slot_memory(schedule, world, geometry) <= world.buffer_limit / kPlansInLimit) return {geometry};
      if (geometry.slots <= std::max(min_slots, 2u)) break;
    }
    return {};
  };
  std::vector<Geometry> found;
  const auto consider = [&](Geometry geometry) {
    for (const Geometry& fit : fitted(geometry)) found.push_back(fit);
  };
  for (const Geometry& small : kSmall)
    if (message <= small.slot_bytes) {
      consider(small);
      break;
    }
  if (found.empty())
    for (const Geometry& large : kLarge) {
      if (large.slot_bytes >= smallest) consider(large);
      if (message <= large.slot_bytes) break;
    }
  for (std::uint32_t bytes = kLargestFallback; found.empty() && bytes >= 64 && bytes >= smallest; bytes /= 2)
    consider({2, bytes});
  return found;
}

}  // namespace tutti::planner

#include "src/planner/geometry.h"

#include <algorithm>

#include "src/schedule/partition.h"

namespace tutti::planner {
namespace {

constexpr Geometry kSmall[] = {{8, 1 << 10}, {4, 8 << 10}};     // one round only
constexpr Geometry kLarge[] = {{4, 64 << 10}, {4, 256 << 10}};  // one round or more
constexpr std::uint32_t kLargestFallback = 32 << 10;            // when memory is short: powers of two from here down

// For measuring; of those that hold a whole message only the smallest of each number of slots is tried.
constexpr Geometry kTried[] = {{8, 1 << 10},   {4, 8 << 10},   {4, 64 << 10},  {2, 64 << 10},  {4, 128 << 10},
                               {2, 128 << 10}, {4, 256 << 10}, {2, 256 << 10}, {4, 512 << 10}, {2, 512 << 10}};
constexpr std::uint32_t kSlicedFrom = 64 << 10;  // smaller slots hold whole messages only

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

bool fits(const schedule::Schedule& schedule, const schedule::MessageShape& shape, const World& world,
          std::uint32_t min_slots, std::size_t count, std::size_t element_bytes, Geometry geometry) {
  const std::size_t smallest = std::min(shape.message_bytes(count, element_bytes),
                                        schedule::kChunkAlignment * static_cast<std::size_t>(shape.message_chunks));
  return geometry.slots >= std::max(min_slots, 1u) && geometry.slot_bytes >= smallest &&
         slot_memory(schedule, world, geometry) <= world.buffer_limit / kPlansInLimit;
}

std::vector<Geometry> geometries_to_try(const schedule::Schedule& schedule, const schedule::MessageShape& shape,
                                        const World& world, std::uint32_t min_slots, std::size_t count,
                                        std::size_t element_bytes) {
  const std::size_t message = shape.message_bytes(count, element_bytes);
  std::vector<Geometry> found;
  for (const Geometry& geometry : kTried) {
    if (!fits(schedule, shape, world, min_slots, count, element_bytes, geometry)) continue;
    if (message > geometry.slot_bytes && geometry.slot_bytes < kSlicedFrom) continue;
    const bool larger_than_needed = std::any_of(found.begin(), found.end(), [&](const Geometry& other) {
      return message <= other.slot_bytes && (other.slots == geometry.slots || other.slot_bytes < kSlicedFrom);
    });
    if (!larger_than_needed) found.push_back(geometry);
  }
  return found;
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

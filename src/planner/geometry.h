// How many slots of how many bytes each port of a schedule gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/planner/world.h"
#include "src/schedule/message_shape.h"
#include "src/schedule/schedule.h"

namespace tutti::planner {

struct Geometry {
  std::uint32_t slots = 2;
  std::uint32_t slot_bytes = 64;
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

// One schedule with one geometry takes at most this share of World::buffer_limit, so that the plans of small, middle
// and large calls fit beside each other.
inline constexpr std::size_t kPlansInLimit = 4;

// What is worth considering for blocks of `count` elements; empty when nothing fits in the limit. Sizes are few, so
// that plans of many classes share their rings.
std::vector<Geometry> geometries(const schedule::Schedule& schedule, const schedule::MessageShape& shape,
                                 const World& world, std::uint32_t min_slots, std::size_t count,
                                 std::size_t element_bytes);

// Bytes of slot memory that one rank, the busiest, needs to run the schedule with these slots: the rings of its ports,
// and for each port that it reads from another host the ring in which the transport puts the messages.
std::size_t slot_memory(const schedule::Schedule& schedule, const World& world, Geometry geometry);

}  // namespace tutti::planner

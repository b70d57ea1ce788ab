// How many slots of how many bytes each port of a schedule gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/planner/variant.h"
#include "src/planner/world.h"
#include "src/schedule/message_shape.h"
#include "src/schedule/schedule.h"

namespace tutti::planner {

// One schedule with one geometry takes at most this share of World::buffer_limit, so that the plans of small, middle
// and large calls fit beside each other.
inline constexpr std::size_t kPlansInLimit = 4;

// What is worth considering for blocks of `count` elements; empty when nothing fits in the limit. Sizes are few, so
// that plans of many classes share their rings.
std::vector<Geometry> geometries(const schedule::Schedule& schedule, const schedule::MessageShape& shape,
                                 const World& world, std::uint32_t min_slots, std::size_t count,
                                 std::size_t element_bytes);

// What is worth measuring: more of them, all of which fit in the limit.
std::vector<Geometry> geometries_to_try(const schedule::Schedule& schedule, const schedule::MessageShape& shape,
                                        const World& world, std::uint32_t min_slots, std::size_t count,
                                        std::size_t element_bytes);

// Whether blocks of `count` elements can be cut to fit these slots, and these slots in the limit.
bool fits(const schedule::Schedule& schedule, const schedule::MessageShape& shape, const World& world,
          std::uint32_t min_slots, std::size_t count, std::size_t element_bytes, Geometry geometry);

// Bytes of slot memory that one rank, the busiest, needs to run the schedule with these slots: the rings of its ports,
// and for each port that it reads from another host the ring in which the transport puts the messages.
std::size_t slot_memory(const schedule::Schedule& schedule, const World& world, Geometry geometry);

}  // namespace tutti::planner

// What a call will run: a Schedule, and how its messages are cut to fit their slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/schedule/message_shape.h"
#include "src/schedule/schedule.h"
#include "tutti/types.h"

namespace tutti::planner {

struct Plan {
  std::shared_ptr<const schedule::Schedule> schedule;
  std::uint32_t slots = 2;        // per port
  std::uint32_t slot_bytes = 64;  // payload of one message at most, a multiple of 64

  schedule::MessageShape shape;  // of the schedule

  double predicted_us = 0;
  std::string runner_up;  // the second best algorithm; empty when there is no other
  double runner_up_us = 0;

  std::uint64_t id = 0;  // hash of everything that the ranks must agree on: equal plans have equal ids on all ranks

  // How many elements of every chunk one round moves, for blocks of `count` elements: whole chunks when every message
  // fits in a slot, else slices of about equal size that are multiples of 64 bytes.
  std::size_t slice_elements(std::size_t count, DataType type) const;
  // Rounds that such a call takes; at least one, because empty messages are sent as well.
  std::size_t rounds(std::size_t count, DataType type) const;
};

// A plan without predictions, for tests and tools.
Plan make_plan(std::shared_ptr<const schedule::Schedule> schedule, std::uint32_t slots, std::uint32_t slot_bytes);

// The same on every machine for equal schedules, and different (but for chance) for different ones.
std::uint64_t hash_of(const schedule::Schedule& schedule);
std::uint64_t plan_id(std::uint64_t schedule_hash, std::uint32_t slots, std::uint32_t slot_bytes);

}  // namespace tutti::planner

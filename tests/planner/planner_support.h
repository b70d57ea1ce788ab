// What the planner's tests share.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "src/planner/planner.h"
#include "tutti/error.h"

namespace tutti::planner {

inline World world_of(int ranks, int cores = 0) {
  World world;
  world.ranks = ranks;
  world.cores_per_host = cores;
  return world;
}

inline const Plan& all_reduce(Planner& planner, std::size_t bytes) {
  return planner.plan(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, bytes / 4);
}

// What a call says that must be refused as a bad argument.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  FAIL("no Error");
  return {};
}

}  // namespace tutti::planner

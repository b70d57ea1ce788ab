// One call on its way: what was asked, the program that does it, and how far it has come.
#pragma once

#include <optional>
#include <span>

#include "src/planner/plan.h"
#include "src/runtime/executor.h"
#include "src/runtime/operation_record.h"
#include "src/runtime/waiting.h"
#include "tutti/error.h"
#include "tutti/transfer.h"

namespace tutti::runtime {

struct Request {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;     // elements per block
  std::uint64_t factor = 0;  // of premul_sum: Factor::bits()
};

using Transfers = std::span<const Transfer>;

struct Operation {
  // accepted -> connecting: some peer has yet to make its rings -> running -> draining: everything is done here, but
  // messages to other hosts have yet to leave -> finished
  enum class Phase { accepted, connecting, running, draining, finished };

  const Request* request = nullptr;  // outlives the operation; null: an exchange
  Transfers transfers;               // of an exchange; likewise
  OperationRecord record;
  std::uint32_t fingerprint = 0;
  Clock::time_point deadline;
  Phase phase = Phase::accepted;
  const planner::Plan* plan = nullptr;  // chosen at the call
  std::uint64_t kind = 0;               // equal for calls that differ in their buffers and sequence numbers only
  bool queued = false;                  // asynchronous, or behind asynchronous ones
  unsigned moves = 0;
  unsigned tests = 0;      // by Work::test(), that moved nothing
  bool quiescing = false;  // runs a barrier first, so that all ranks can use their slot memory anew
  BoundProgram* program = nullptr;
  const Call* call = nullptr;  // from `connecting` on
  Execution execution;
  std::optional<Error> error;       // set when it failed
  Clock::time_point next_report;    // when to tell the control plane next that it does not move
  int mismatched_rank = -1;         // whose message belongs to another call
  Clock::time_point blocked_since;  // when who comes now and then first saw it not move
};

}  // namespace tutti::runtime

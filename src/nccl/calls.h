// The one place that knows how the collectives and messages of the public C++ interface are called.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tutti/communicator.h"

namespace tutti::nccl {

enum class Kind { all_reduce, reduce, reduce_scatter, broadcast, all_gather, all_to_all, gather, scatter };

// A collective as the C interface describes it; what a rank does not use is ignored (NCCL: a root's buffers elsewhere).
struct Call {
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
};

// A send or a receive.
struct Message {
  bool send = true;
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  int peer = 0;
};

// The blocking forms.
void run(Communicator& communicator, const Call& call);
void run(Communicator& communicator, std::span<const Message> messages);

// The asynchronous forms; nothing when all is done already.
std::optional<Work> start(Communicator& communicator, const Call& call);
std::optional<Work> start(Communicator& communicator, std::span<const Message> messages);

// How long the planner expects the call to take, in microseconds; 0 where it has no figure.
double predicted_us(const Communicator& communicator, const Call& call);

}  // namespace tutti::nccl

#include "src/nccl/calls.h"

#include <cstring>

#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

[[noreturn]] void not_yet(const char* what) {
  throw Error(ErrorCode::invalid_usage, std::string(what) + " is not in this version yet");
}

// The C++ interface broadcasts in place.
void bring_to_output(const Communicator& communicator, const Call& call) {
  if (communicator.rank() == call.root && call.input != call.output && call.count > 0)
    std::memmove(call.output, call.input, call.count * size_of(call.type));
}

}  // namespace

void run(Communicator& communicator, const Call& call) {
  switch (call.kind) {
    case Kind::all_reduce: return communicator.all_reduce(call.input, call.output, call.count, call.type, call.op);
    case Kind::broadcast:
      bring_to_output(communicator, call);
      return communicator.broadcast(call.output, call.count, call.type, call.root);
    case Kind::all_gather: return communicator.all_gather(call.input, call.output, call.count, call.type);
    case Kind::reduce: not_yet("ncclReduce");
    case Kind::reduce_scatter: not_yet("ncclReduceScatter");
    case Kind::all_to_all: not_yet("ncclAlltoAll");
    case Kind::gather: not_yet("ncclGather");
    case Kind::scatter: not_yet("ncclScatter");
  }
}

void run(Communicator&, std::span<const Message>) { not_yet("a message from rank to rank"); }

std::optional<Work> start(Communicator& communicator, const Call& call) {
  if (call.kind == Kind::all_reduce)
    return communicator.all_reduce_async(call.input, call.output, call.count, call.type, call.op);
  run(communicator, call);
  return std::nullopt;
}

std::optional<Work> start(Communicator& communicator, std::span<const Message> messages) {
  run(communicator, messages);
  return std::nullopt;
}

double predicted_us(const Communicator& communicator, const Call& call) {
  switch (call.kind) {
    case Kind::all_reduce:
      return communicator.explain(Collective::all_reduce, call.count, call.type, call.op).predicted_us;
    case Kind::broadcast: return communicator.explain(Collective::broadcast, call.count, call.type).predicted_us;
    case Kind::all_gather: return communicator.explain(Collective::all_gather, call.count, call.type).predicted_us;
    default: return 0;
  }
}

}  // namespace tutti::nccl

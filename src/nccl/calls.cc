#include "src/nccl/calls.h"

namespace tutti::nccl {

void run(Communicator& communicator, const CollectiveCall& call) {
  const auto& [collective, input, output, count, type, op, root] = call;
  switch (collective) {
    case Collective::all_reduce: return communicator.all_reduce(input, output, count, type, op);
    case Collective::broadcast:  // broadcast() is in place
      if (communicator.rank() == root && input != output) return communicator.start(call).wait();
      return communicator.broadcast(output, count, type, root);
    case Collective::all_gather: return communicator.all_gather(input, output, count, type);
    case Collective::reduce: return communicator.reduce(input, output, count, type, op, root);
    case Collective::reduce_scatter: return communicator.reduce_scatter(input, output, count, type, op);
    case Collective::all_to_all: return communicator.all_to_all(input, output, count, type);
    case Collective::gather: return communicator.gather(input, output, count, type, root);
    case Collective::scatter: return communicator.scatter(input, output, count, type, root);
    case Collective::barrier: return communicator.barrier();
  }
}

void run(Communicator& communicator, const Transfer& transfer) { communicator.exchange({&transfer, 1}); }
void run(Communicator& communicator, std::span<const Transfer> transfers) { communicator.exchange(transfers); }

double predicted_us(const Communicator& communicator, const CollectiveCall& call) {
  return communicator.explain(call.collective, call.count, call.type, call.op).predicted_us;
}

}  // namespace tutti::nccl

#include "src/nccl/calls.h"

namespace tutti::nccl {

void run(Communicator& communicator, const CollectiveCall& call) { communicator.run(call); }
void run(Communicator& communicator, const Transfer& transfer) { communicator.exchange({&transfer, 1}); }
void run(Communicator& communicator, std::span<const Transfer> transfers) { communicator.exchange(transfers); }

double predicted_us(const Communicator& communicator, const CollectiveCall& call) {
  return communicator.explain(call.collective, call.count, call.type, call.op).predicted_us;
}

}  // namespace tutti::nccl

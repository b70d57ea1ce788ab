// The one place that knows how the collectives and messages of the public C++ interface are called.
#pragma once

#include <span>

#include "tutti/communicator.h"

namespace tutti::nccl {

// The blocking forms; they allocate nothing for what is in place.
void run(Communicator& communicator, const CollectiveCall& call);
void run(Communicator& communicator, const Transfer& transfer);
void run(Communicator& communicator, std::span<const Transfer> transfers);

// How long the planner expects the call to take, in microseconds.
double predicted_us(const Communicator& communicator, const CollectiveCall& call);

}  // namespace tutti::nccl

// A client of PyTorch's TCPStore, the key-value server that torchrun's agent keeps at MASTER_PORT. Rank 0 leaves a
// UniqueId there and the others fetch it; nothing of PyTorch is needed.
#pragma once

#include <chrono>

#include "src/runtime/job.h"

namespace tutti::runtime {

// The same job with a meeting point of its own. Blocks until rank 0 has published it, at most until the deadline.
// The keys are "/tutti/<name of the meeting>/...", and count the calls, so restarts and repeated connects do not mix.
Job meet_through_store(const Job& job, std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::runtime

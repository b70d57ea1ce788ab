#include "src/runtime/torch_store.h"

namespace tutti::runtime {
Job meet_through_store(const Job& job, std::chrono::steady_clock::time_point) { return job; }
}  // namespace tutti::runtime

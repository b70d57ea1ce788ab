// Copies and sums of float32 with the widest vectors that this CPU has; for the hand-written references.
#pragma once

#include <cstddef>

namespace tutti::peers {

void copy_floats(float* to, const float* from, std::size_t count);

// targets[t][i] = sources[0][i] + sources[1][i] + ..., for i from begin to end, in this order on every rank.
void sum_floats(const float* const* sources, int source_count, float* const* targets, int target_count,
                std::size_t begin, std::size_t end);

// The same with stores that pass the caches by, for more data than they hold; complete when they return. They take
// ordinary stores where a target is not aligned to 16 bytes, and on CPUs that have no such stores.
void copy_floats_streaming(float* to, const float* from, std::size_t count);
void sum_floats_streaming(const float* const* sources, int source_count, float* const* targets, int target_count,
                          std::size_t begin, std::size_t end);

}  // namespace tutti::peers

// The registry of what tutti::alloc has given out in this process: the transports ask it where an address lies, and for
// the descriptor to hand to peers. Together with the engine it is the only state of the process, because memory
// outlives communicators and belongs to none.
//
// Thread safety: all of it, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/fd.h"

namespace tutti::runtime {

struct SegmentPlace {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
};

// The segment in which [data, data + bytes) lies as a whole; nothing when there is none.
std::optional<SegmentPlace> find_segment(const void* data, std::size_t bytes);

// The segment's descriptor, which stays open while the result lives; null when it has been freed.
std::shared_ptr<const base::Fd> segment_fd(std::uint64_t segment);

}  // namespace tutti::runtime

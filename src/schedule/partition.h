// Where chunks and slices lie in a block of `count` elements. Borders depend only on (count, chunks, element size), and
// fall on 64-byte multiples, so that ranks that work on neighbouring chunks share no cache line. Chunks may be empty.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti::schedule {

struct Extent {
  std::size_t begin = 0;  // first element
  std::size_t count = 0;  // elements
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

inline constexpr std::size_t kChunkAlignment = 64;  // bytes: one cache line

// First element of chunk `chunk` of `chunks`; chunk == chunks gives `count`. Exact for counts over 2^32.
constexpr std::size_t chunk_begin(std::size_t count, std::size_t chunks, std::size_t element_bytes, std::size_t chunk) {
  const std::size_t unit = kChunkAlignment / element_bytes;
  const std::size_t units = count / unit + (count % unit != 0);
  const std::size_t first = units / chunks * chunk + units % chunks * chunk / chunks;
  return std::min(first * unit, count);
}

constexpr Extent chunk_extent(std::size_t count, std::size_t chunks, std::size_t element_bytes, std::size_t chunk) {
  const std::size_t begin = chunk_begin(count, chunks, element_bytes, chunk);
  return {begin, chunk_begin(count, chunks, element_bytes, chunk + 1) - begin};
}

// Elements of the largest chunk.
constexpr std::size_t largest_chunk(std::size_t count, std::size_t chunks, std::size_t element_bytes) {
  const std::size_t unit = kChunkAlignment / element_bytes;
  const std::size_t units = count / unit + (count % unit != 0);
  return std::min((units / chunks + (units % chunks != 0)) * unit, count);
}

// Slice `round` of an extent, `slice` elements at most; empty past the end.
constexpr Extent slice_extent(Extent chunk, std::size_t slice, std::size_t round) {
  const std::size_t offset = std::min(round * slice, chunk.count);
  return {chunk.begin + offset, std::min(slice, chunk.count - offset)};
}

}  // namespace tutti::schedule

#include "src/schedule/partition.h"

#include <catch2/catch.hpp>

using namespace tutti::schedule;

TEST_CASE("chunks tile the block in order, on cache-line borders") {
  for (std::size_t count : {0ul, 1ul, 2ul, 15ul, 16ul, 17ul, 97ul, 1000ul, 65537ul, (1ul << 33) + 7})
    for (std::size_t chunks : {1ul, 2ul, 3ul, 7ul, 16ul, 64ul, 1056ul})
      for (std::size_t bytes : {1ul, 2ul, 4ul, 8ul}) {
        std::size_t next = 0, largest = 0;
        bool aligned = true;
        for (std::size_t c = 0; c < chunks; ++c) {
          const Extent e = chunk_extent(count, chunks, bytes, c);
          REQUIRE(e.begin == next);
          aligned = aligned && (e.begin * bytes % kChunkAlignment == 0 || e.begin == count);
          next = e.begin + e.count;
          largest = std::max(largest, e.count);
        }
        REQUIRE(next == count);
        REQUIRE(aligned);
        REQUIRE(largest <= largest_chunk(count, chunks, bytes));
      }
}

TEST_CASE("slices tile a chunk and are empty past its end") {
  const Extent chunk{100, 25};
  CHECK(slice_extent(chunk, 10, 0) == Extent{100, 10});
  CHECK(slice_extent(chunk, 10, 2) == Extent{120, 5});
  CHECK(slice_extent(chunk, 10, 3) == Extent{125, 0});
}

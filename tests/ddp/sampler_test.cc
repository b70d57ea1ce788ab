#include <algorithm>
#include <catch2/catch.hpp>

#include "tutti/ddp.h"

using tutti::DistributedSampler;
using Tail = DistributedSampler::Tail;
using Indices = std::vector<std::size_t>;

namespace {

std::vector<Indices> all_ranks(std::size_t samples, int world, DistributedSampler::Options options,
                               std::uint64_t epoch = 0) {
  std::vector<Indices> all;
  for (int rank = 0; rank < world; ++rank) {
    const DistributedSampler sampler(samples, world, rank, options);
    all.push_back(sampler.indices(epoch));
    CHECK(sampler.size() == all.back().size());
  }
  return all;
}

std::vector<std::size_t> sorted_union(const std::vector<Indices>& all) {
  Indices merged;
  for (const Indices& one : all) merged.insert(merged.end(), one.begin(), one.end());
  std::sort(merged.begin(), merged.end());
  return merged;
}

Indices iota(std::size_t n) {
  Indices all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

}  // namespace

TEST_CASE("the indices are those of PyTorch's DistributedSampler") {
  CHECK(all_ranks(10, 4, {.shuffle = false}) == std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
  CHECK(all_ranks(10, 4, {.shuffle = false, .tail = Tail::drop_last}) ==
        std::vector<Indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(all_ranks(1, 4, {.shuffle = false}) == std::vector<Indices>{{0}, {0}, {0}, {0}});
  CHECK(all_ranks(10, 3, {.seed = 0}, 0) == std::vector<Indices>{{4, 5, 0, 2}, {1, 3, 8, 4}, {7, 9, 6, 1}});
  CHECK(all_ranks(10, 3, {.seed = 0}, 1) == std::vector<Indices>{{5, 2, 9, 4}, {6, 0, 3, 5}, {1, 8, 7, 6}});
  CHECK(DistributedSampler(10, 1, 0).indices(0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  // seed and epoch are added, and 32 bits of them count
  CHECK(DistributedSampler(1000, 1, 0, {.seed = 7}).indices(5) ==
        DistributedSampler(1000, 1, 0, {.seed = 12}).indices(0));
  CHECK(DistributedSampler(1000, 1, 0, {.seed = (1ull << 32) + 5}).indices(0) ==
        DistributedSampler(1000, 1, 0, {.seed = 5}).indices(0));
}

TEST_CASE("pad repeats samples, uneven takes each once") {
  for (const std::size_t samples : {1u, 3u, 4u, 10u, 11u, 13u, 1001u})
    for (const int world : {1, 2, 3, 4, 7, 9}) {
      CAPTURE(samples, world);
      const auto even = all_ranks(samples, world, {});
      for (const Indices& one : even) {
        CHECK(one.size() == even[0].size());
        for (const std::size_t i : one) CHECK(i < samples);
      }
      CHECK(sorted_union(all_ranks(samples, world, {.tail = Tail::uneven}, 3)) == iota(samples));
    }
}

TEST_CASE("batches are the same samples whatever the number of ranks") {
  const auto alone = DistributedSampler(1001, 1, 0, {.seed = 3, .tail = Tail::uneven}).batches(2, 10);
  REQUIRE(alone.size() == 101);
  CHECK(alone.back().size() == 1);
  for (const int world : {2, 3, 4}) {
    std::vector<std::vector<Indices>> ranks;
    for (int rank = 0; rank < world; ++rank)
      ranks.push_back(DistributedSampler(1001, world, rank, {.seed = 3, .tail = Tail::uneven}).batches(2, 10));
    for (std::size_t k = 0; k < alone.size(); ++k) {
      std::vector<Indices> shares;
      for (const auto& batches : ranks) {
        REQUIRE(batches.size() == alone.size());
        shares.push_back(batches[k]);
      }
      Indices expected = alone[k];
      std::sort(expected.begin(), expected.end());
      CHECK(sorted_union(shares) == expected);
    }
  }
}

TEST_CASE("what would train on nothing is refused") {
  using Catch::Contains;
  CHECK_THROWS_WITH(DistributedSampler(0, 2, 0), Contains("no samples"));
  CHECK_THROWS_WITH(DistributedSampler(3, 4, 0, {.tail = Tail::drop_last}), Contains("3 samples for 4 ranks"));
  CHECK_THROWS_WITH(DistributedSampler(3, 4, 4), Contains("rank 4 of 4 ranks"));
  CHECK_THROWS_WITH(DistributedSampler(3, 4, -1), Contains("rank -1"));
  CHECK_THROWS_WITH(DistributedSampler(std::size_t{1} << 32, 4, 0), Contains("fewer than 214748364"));
  CHECK_THROWS_WITH(DistributedSampler(3, 4, 0).batches(0, 0), Contains("1 sample"));
}

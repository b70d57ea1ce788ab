#include "src/planner/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "src/planner/geometry.h"
#include "src/planner/size_class.h"
#include "src/schedule/builders.h"
#include "src/schedule/partition.h"

using namespace tutti;
using namespace tutti::planner;

TEST_CASE("size classes have two borders per power of two") {
  const std::size_t borders[] = {64, 96, 128, 192, 256, 384, 512, 768, 1024};
  for (int i = 0; i < 9; ++i) {
    INFO(i);
    CHECK(class_border(i) == borders[i]);
    CHECK(class_of(borders[i]) == i);
    CHECK(class_of(borders[i] + 1) == i + 1);
  }
  CHECK(class_of(0) == 0);
  CHECK(class_of(1) == 0);
  CHECK(class_border(class_of(std::size_t{1} << 40)) == std::size_t{1} << 40);
  CHECK(class_of(~std::size_t{0}) == kLastClass);
  for (std::size_t bytes = 1; bytes < 20000; ++bytes) {
    const int size_class = class_of(bytes);
    REQUIRE(class_border(size_class) >= bytes);
    if (size_class > 0) REQUIRE(class_border(size_class - 1) < bytes);
  }
}

namespace {

std::shared_ptr<const schedule::Schedule> built(const char* name, int ranks) {
  schedule::Shape shape;
  shape.ranks = ranks;
  return std::make_shared<const schedule::Schedule>(schedule::find_builder(Collective::all_reduce, name)->build(shape));
}

}  // namespace

TEST_CASE("slices cover every chunk, fit the slot and are no smaller than need be") {
  for (const char* name : {"ring", "tree", "oneshot", "twoshot", "halving_doubling"})
    for (const int ranks : {2, 3, 7, 8})
      for (const std::size_t slot_bytes : {1024u, 8192u, 65536u})
        for (const std::size_t count : {0, 1, 2, 15, 16, 17, 1000, 4096, 65537, 1000003})
          for (const DataType type : {DataType::int8, DataType::float32, DataType::float64}) {
            const Plan plan = make_plan(built(name, ranks), 2, static_cast<std::uint32_t>(slot_bytes));
            const std::size_t bytes = size_of(type);
            const std::size_t slice = plan.slice_elements(count, type), rounds = plan.rounds(count, type);
            CAPTURE(name, ranks, slot_bytes, count, bytes, slice, rounds);
            // Recomputed from the definition of chunks.
            const auto chunks = static_cast<std::size_t>(plan.schedule->input_chunks);
            std::size_t largest = 0;
            for (std::size_t chunk = 0; chunk < chunks; ++chunk)
              largest = std::max(largest, schedule::chunk_extent(count, chunks, bytes, chunk).count);
            REQUIRE(rounds >= 1);
            REQUIRE(slice * rounds >= largest);
            REQUIRE((rounds - 1) * slice <= largest);
            std::int32_t most_chunks = 1;
            for (const auto& program : plan.schedule->programs)
              for (const auto& lane : program.lanes)
                for (const auto& step : lane) most_chunks = std::max(most_chunks, step.chunks);
            if (rounds > 1) {
              REQUIRE(slice * bytes * static_cast<std::size_t>(most_chunks) <= slot_bytes);
              REQUIRE(slice * bytes % 64 == 0);
              // One round less would not fit.
              REQUIRE(((largest + rounds - 2) / (rounds - 1)) * bytes * static_cast<std::size_t>(most_chunks) >
                      slot_bytes - 64 * static_cast<std::size_t>(most_chunks));
            } else {
              REQUIRE(std::min(largest * static_cast<std::size_t>(most_chunks), count) * bytes <= slot_bytes);
            }
          }
}

TEST_CASE("plan ids tell schedules and slots apart and repeat") {
  const Plan plan = make_plan(built("ring", 4), 2, 1024);
  CHECK(plan.id == make_plan(built("ring", 4), 2, 1024).id);
  CHECK(plan.id != make_plan(built("ring", 5), 2, 1024).id);
  CHECK(plan.id != make_plan(built("tree", 4), 2, 1024).id);
  CHECK(plan.id != make_plan(built("ring", 4), 4, 1024).id);
  CHECK(plan.id != make_plan(built("ring", 4), 2, 8192).id);
  schedule::Shape turned;
  turned.ranks = 4;
  turned.order = {0, 2, 1, 3};
  const auto other = schedule::build_ring_all_reduce(turned);
  CHECK(plan.id != make_plan(std::make_shared<const schedule::Schedule>(other), 2, 1024).id);
  auto changed = *plan.schedule;
  changed.programs[1].lanes[0][0].in[0].index += 1;
  CHECK(plan.id != make_plan(std::make_shared<const schedule::Schedule>(changed), 2, 1024).id);
}

TEST_CASE("slot memory counts the rings of the busiest rank, and the copies of remote ones") {
  World world;
  world.ranks = 4;
  const auto ring = built("ring", 4);  // one port and one reader per rank
  CHECK(slot_memory(*ring, world, {2, 1024}) == 2 * (64 + 1024) + 128);
  const auto oneshot = built("oneshot", 4);  // one port, three readers
  CHECK(slot_memory(*oneshot, world, {4, 64}) == 4 * (64 + 64) + 3 * 128);
  world.host_of_rank = {0, 0, 1, 1};  // two of the three ports that a rank reads come from the other host
  CHECK(slot_memory(*oneshot, world, {4, 64}) == 4 * (64 + 64) + 3 * 128 + 2 * (4 * (64 + 64) + 128));
}

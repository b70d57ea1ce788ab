#include "src/runtime/arena.h"

#include <catch2/catch.hpp>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;

TEST_CASE("rings are found by port, zeroed, and apart from each other") {
  Arena arena(42, 3, std::size_t{1} << 20);
  const RingGeometry small{2, 8, 1024}, large{1, 2, 65536};
  const Ring a = arena.make_ring(7, small);
  const Ring b = arena.make_ring(8, large);
  CHECK(arena.view().find(7)->memory == a.memory);
  CHECK(arena.view().find(8)->geometry == large);
  CHECK_FALSE(arena.view().find(9));
  CHECK(a.memory + small.bytes() <= b.memory);
  for (std::uint32_t slot = 0; slot < small.slots; ++slot) CHECK(a.slot(slot).stamp.load() == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(&a.slot(1)) % 64 == 0);
}

TEST_CASE("a ring that does not fit is refused by name, and rings can be forgotten") {
  Arena arena(42, 3, 64 << 10);
  arena.make_ring(1, {1, 2, 64});
  const std::uint32_t keep = arena.rings();
  const Ring first = arena.make_ring(2, {1, 2, 16384});
  first.slot(0).stamp.store(77);
  CHECK_THROWS_WITH(arena.make_ring(3, {1, 2, 16384}),
                    Catch::Contains("rank 3") && Catch::Contains("TUTTI_BUFFER_LIMIT"));
  arena.forget_rings(keep);
  CHECK(arena.view().find(1));
  CHECK_FALSE(arena.view().find(2));
  const Ring again = arena.make_ring(3, {1, 2, 16384});
  CHECK(again.memory == first.memory);
  CHECK(again.slot(0).stamp.load() == 0);
}

TEST_CASE("lasting rings outlive the others, and both share the memory") {
  constexpr PortId a = kLastingPort | 1, b = kLastingPort | 2;
  constexpr std::size_t kLimit = 64 << 10;
  constexpr RingGeometry geometry{1, 2, 7936};
  static_assert(arena_bytes(geometry) == 16384);
  Arena arena(42, 3, kLimit);
  const Ring other = arena.make_ring(1, geometry);
  const Ring first = arena.make_ring(a, geometry);
  const Ring second = arena.make_ring(b, geometry);
  CHECK(first.memory == arena.view().base() + arena.mapped_bytes() - 16384);
  CHECK(second.memory == first.memory - 16384);
  first.slot(0).stamp.store(77);
  const Ring last = arena.make_ring(2, geometry);
  CHECK(last.memory == other.memory + 16384);
  for (const PortId port : {PortId{3}, kLastingPort | 3})
    CHECK_THROWS_WITH(arena.make_ring(port, {1, 2, 64}), Catch::Contains("TUTTI_BUFFER_LIMIT"));
  arena.forget_rings(0);
  CHECK_FALSE(arena.view().find(1));
  CHECK_FALSE(arena.view().find(2));
  CHECK(arena.view().find(a)->memory == first.memory);
  CHECK(arena.view().find(b)->memory == second.memory);
  CHECK(first.slot(0).stamp.load() == 77);
  CHECK(arena.make_ring(4, {1, 2, 16128}).memory == other.memory);
  CHECK_THROWS(arena.make_ring(5, {1, 2, 64}));
  CHECK(first.slot(0).stamp.load() == 77);
}

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

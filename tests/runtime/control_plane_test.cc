// The control plane between ranks as threads of this process: meeting, exchange, faults, reports, leaving.
#include "src/runtime/control_plane.h"

#include <catch2/catch.hpp>

#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("ranks as threads meet by a unique id and exchange blobs", "[control]") {
  const int size = GENERATE(1, 2, 3, 5, 8, 16, 33);
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(size, [&](int rank) {
    const auto plane = connect(id, rank, size);
    for (int round = 0; round < 3; ++round) {
      Bytes mine(static_cast<std::size_t>(rank * 100 + round), std::byte(rank + round));
      const auto all = plane->all_gather(mine, soon());
      require(all.size() == static_cast<std::size_t>(size), "one blob per rank");
      for (int other = 0; other < size; ++other)
        require(
            all[std::size_t(other)] == Bytes(static_cast<std::size_t>(other * 100 + round), std::byte(other + round)),
            "the blob of rank " + std::to_string(other));
    }
    plane->leave(0);
    require(!plane->fault_raised(), "no fault");
  });
  CHECK(failures == std::vector<std::string>(std::size_t(size)));
}

TEST_CASE("ranks as processes meet by a unique id of their parent", "[control]") {
  const int size = GENERATE(2, 7);
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(size, [&](int rank) {
    const auto plane = connect(id, rank, size);
    const auto all = plane->all_gather({std::byte(rank)}, soon());
    for (int other = 0; other < size; ++other) require(all[std::size_t(other)] == Bytes{std::byte(other)}, "the blob");
    plane->leave(0);
  });
  CHECK(failures == std::vector<std::string>(std::size_t(size)));
}

// Groups: several ranks in one thread, several communicators, nesting, refusals.
#include "tests/nccl/ranks.h"

TEST_CASE("several ranks of one thread reduce in a group") {
  const int size = GENERATE(1, 2, 3, 5);
  const Ranks ranks(size);
  std::vector<std::vector<int>> data;
  for (int rank = 0; rank < size; ++rank) data.push_back(ones_of(rank, 1000));
  for (int round = 0; round < 2; ++round) {  // the second one reduces the sums
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < size; ++rank) {
      int* own = data[static_cast<std::size_t>(rank)].data();
      REQUIRE(ncclAllReduce(own, own, 1000, ncclInt32, ncclSum, ranks[rank], nullptr) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  for (const auto& own : data) CHECK(own == std::vector<int>(1000, sum_of_ones(size) * size));
}

TEST_CASE("nothing of a group begins before its outermost end") {
  const Ranks ranks(1);
  int value = 7, result = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclAllReduce(&value, &result, 1, ncclInt32, ncclSum, ranks[0], nullptr) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(result == 0);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(result == 0);
  value = 8;  // read at the end
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(result == 8);
}

TEST_CASE("a group holds operations of several communicators, in any order") {
  const Ranks first(3), second(2);
  std::vector<int> a(3), b(2), c(3);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 2; rank >= 0; --rank) {
    const auto at = static_cast<std::size_t>(rank);
    a[at] = rank + 1;
    c[at] = 10 * (rank + 1);
    REQUIRE(ncclAllReduce(&a[at], &a[at], 1, ncclInt32, ncclSum, first[rank], nullptr) == ncclSuccess);
    if (rank < 2) {
      b[at] = 100 * (rank + 1);
      REQUIRE(ncclAllReduce(&b[at], &b[at], 1, ncclInt32, ncclMax, second[rank], nullptr) == ncclSuccess);
    }
    REQUIRE(ncclAllReduce(&c[at], &c[at], 1, ncclInt32, ncclMin, first[rank], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(a == std::vector<int>{6, 6, 6});
  CHECK(b == std::vector<int>{200, 200});
  CHECK(c == std::vector<int>{10, 10, 10});
}

TEST_CASE("an empty group does nothing, and an end needs a start") {
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("ncclGroupStart"));
  CHECK(ncclGroupSimulateEnd(nullptr) == ncclInvalidUsage);
  REQUIRE(ncclGroupStart() == ncclSuccess);  // the next one is in order
  REQUIRE(ncclGroupEnd() == ncclSuccess);
}

TEST_CASE("a group with a refused call runs nothing, and leaves the next one alone") {
  const Ranks ranks(1);
  int value = 3, result = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclAllReduce(&value, &result, 1, ncclInt32, ncclSum, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclAllReduce(nullptr, &result, 1, ncclInt32, ncclSum, ranks[0], nullptr) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("sendbuff"));
  CHECK(result == 0);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclAllReduce(&value, &result, 1, ncclInt32, ncclSum, ranks[0], nullptr) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(result == 3);
}

TEST_CASE("groups are a thread's own") {
  const Ranks ranks(1);
  int value = 3, result = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  ncclResult_t called{}, ended{};
  std::thread other([&] {
    called = ncclAllReduce(&value, &result, 1, ncclInt32, ncclSum, ranks[0], nullptr);
    ended = ncclGroupEnd();
    ncclGroupStart();  // and dies with it open
  });
  other.join();
  CHECK(called == ncclSuccess);
  CHECK(ended == ncclInvalidUsage);
  CHECK(result == 3);  // at once
  REQUIRE(ncclGroupEnd() == ncclSuccess);
}

TEST_CASE("several inits in one group meet each other") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<ncclComm_t> comms(3);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank)
    REQUIRE(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], 3, id, rank) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    int own = -1, count = -1;
    REQUIRE(ncclCommUserRank(comms[static_cast<std::size_t>(rank)], &own) == ncclSuccess);
    REQUIRE(ncclCommCount(comms[static_cast<std::size_t>(rank)], &count) == ncclSuccess);
    CHECK(own == rank);
    CHECK(count == 3);
  }
  // Finalize and destroy wait for the end of a group, too.
  std::vector<int> data{1, 2, 3};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    REQUIRE(ncclAllReduce(&data[at], &data[at], 1, ncclInt32, ncclSum, comms[at], nullptr) == ncclSuccess);
    REQUIRE(ncclCommFinalize(comms[at]) == ncclSuccess);
    REQUIRE(ncclCommDestroy(comms[at]) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(data == std::vector<int>{6, 6, 6});
  CHECK(ncclCommDestroy(comms[0]) == ncclInvalidArgument);
}

TEST_CASE("a group can be simulated instead of run") {
  const Ranks ranks(2);
  std::vector<int> data(2);
  const auto simulate = [&](std::size_t count, int calls) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int call = 0; call < calls; ++call)
      REQUIRE(ncclAllReduce(data.data(), data.data(), count, ncclInt32, ncclSum, ranks[0], nullptr) == ncclSuccess);
    REQUIRE(ncclGroupSimulateEnd(&info) == ncclSuccess);
    return info.estimatedTime;
  };
  const float once = simulate(1000, 1);
  CHECK(once > 0);
  CHECK(simulate(1000, 3) == Approx(3 * once));
  CHECK(simulate(1000, 0) == 0);
  CHECK(data == std::vector<int>{0, 0});

  ncclSimInfo_t wrong = NCCL_SIM_INFO_INITIALIZER;
  wrong.magic = 1;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupSimulateEnd(&wrong) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);  // it was the end
}

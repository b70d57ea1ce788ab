// From init to the end of a communicator, in order and out of it.
#include <atomic>

#include "tests/nccl/ranks.h"

namespace {

ncclComm_t alone() {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  return comm;
}

ncclResult_t reduce_one(ncclComm_t comm) {
  int value = 1;
  return ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr);
}

// Every rank from its own thread with one id.
std::vector<ncclComm_t> init_on_threads(int size, ncclConfig_t* config) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return on_threads(size, [&](int rank) {
    ncclComm_t comm = nullptr;
    ncclCommInitRankConfig(&comm, size, id, rank, config);
    return comm;
  });
}

}  // namespace

TEST_CASE("a communicator that is gone is refused, whatever is asked of it") {
  ncclComm_t comm = alone();
  const bool aborted = GENERATE(false, true);
  REQUIRE((aborted ? ncclCommAbort(comm) : ncclCommDestroy(comm)) == ncclSuccess);
  int number = 0;
  ncclResult_t state{};
  CHECK(reduce_one(comm) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(comm), Catch::Contains("destroyed or aborted before"));
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
  CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  CHECK(ncclCommCount(comm, &number) == ncclInvalidArgument);
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(comm, 0, 0, &child, nullptr) == ncclInvalidArgument);
  ncclComm_t next = alone();  // has another handle
  CHECK(next != comm);
  CHECK(reduce_one(comm) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(next) == ncclSuccess);
}

TEST_CASE("no communicator can be destroyed and aborted") {
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(nullptr) == ncclSuccess);
  CHECK(ncclCommFinalize(nullptr) == ncclInvalidArgument);
}

TEST_CASE("of two threads that destroy a communicator one succeeds") {
  for (int round = 0; round < 20; ++round) {
    ncclComm_t comm = alone();
    const auto results = on_threads(2, [&](int) { return ncclCommDestroy(comm); });
    CHECK(((results[0] == ncclSuccess && results[1] == ncclInvalidArgument) ||
           (results[1] == ncclSuccess && results[0] == ncclInvalidArgument)));
  }
}

TEST_CASE("a finalized communicator can only be destroyed") {
  ncclComm_t comm = alone();
  REQUIRE(ncclCommFinalize(comm) == ncclSuccess);
  CHECK(reduce_one(comm) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(comm), Catch::Contains("finalized"));
  CHECK(ncclCommFinalize(comm) == ncclInvalidUsage);
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(comm, 0, 0, &child, nullptr) == ncclInvalidUsage);
  ncclResult_t state = ncclInternalError;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("abort ends the calls of all ranks that wait") {
  std::vector<ncclComm_t> comms(3);
  REQUIRE(ncclCommInitAll(comms.data(), 3, nullptr) == ncclSuccess);
  // Ranks 0 and 1 wait for rank 2, which never calls; another thread aborts rank 0's end.
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ncclCommAbort(comms[0]);
  });
  const auto results = on_threads(2, [&](int rank) {
    waiting.fetch_add(1);
    return reduce_one(comms[static_cast<std::size_t>(rank)]);
  });
  aborter.join();
  CHECK(results == std::vector<ncclResult_t>{ncclRemoteError, ncclRemoteError});
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comms[1], &state) == ncclSuccess);
  CHECK(state == ncclRemoteError);
  CHECK_THAT(ncclGetLastError(comms[1]), Catch::Contains("ncclCommAbort"));
  CHECK(reduce_one(comms[0]) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comms[1]) == ncclSuccess);
  CHECK(ncclCommDestroy(comms[2]) == ncclSuccess);
}

TEST_CASE("the last error belongs to a communicator") {
  const Ranks ranks(2);
  CHECK(std::string(ncclGetLastError(ranks[0])).empty());
  int value = 0;
  CHECK(ncclAllReduce(&value, &value, 1, ncclNumTypes, ncclSum, ranks[1], nullptr) == ncclInvalidArgument);
  CHECK(std::string(ncclGetLastError(ranks[0])).empty());
  CHECK_THAT(ncclGetLastError(ranks[1]),
             Catch::Contains("ncclAllReduce: rank 1 of 2") && Catch::Contains("datatype is 12"));
  CHECK(std::string(ncclGetLastError(nullptr)) == ncclGetLastError(ranks[1]));
}

TEST_CASE("revoked, a communicator that was quiet can be split, and does nothing else") {
  const Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(ncclCommRevoke(ranks[rank], 1) == ncclInvalidArgument);
    CHECK(ncclCommRevoke(ranks[rank], NCCL_REVOKE_DEFAULT) == ncclSuccess);
    CHECK(reduce_one(ranks[rank]) == ncclInvalidUsage);
    CHECK_THAT(ncclGetLastError(ranks[rank]), Catch::Contains("revoked"));
    CHECK(ncclCommFinalize(ranks[rank]) == ncclInvalidUsage);
  }
  const auto results = on_threads(2, [&](int rank) {
    ncclComm_t child = nullptr;
    const ncclResult_t made = ncclCommSplit(ranks[rank], 0, 0, &child, nullptr);
    const ncclResult_t reduced = made == ncclSuccess ? reduce_one(child) : made;
    ncclCommDestroy(child);
    return reduced;
  });
  CHECK(results == all_succeed(2));
}

TEST_CASE("revoke ends the call that another thread waits in") {
  const Ranks ranks(2);
  std::atomic<bool> waiting{false};
  std::thread revoker([&] {
    while (!waiting.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ncclCommRevoke(ranks[0], NCCL_REVOKE_DEFAULT);
  });
  waiting.store(true);
  CHECK(reduce_one(ranks[0]) == ncclRemoteError);
  revoker.join();
  CHECK_THAT(ncclGetLastError(ranks[0]), Catch::Contains("ncclCommRevoke"));
}

TEST_CASE("a device is what the program calls it, or the place on the host") {
  const int devices[] = {5, 2, 9};
  const Ranks named(3, devices), unnamed(3);
  for (int rank = 0; rank < 3; ++rank) {
    int device = -1;
    CHECK(ncclCommCuDevice(named[rank], &device) == ncclSuccess);
    CHECK(device == devices[rank]);
    CHECK(ncclCommCuDevice(unnamed[rank], &device) == ncclSuccess);
    CHECK(device == rank);
  }
}

TEST_CASE("without blocking, init and operations are done when polling says so") {
  ncclConfig_t config = config_of(0);
  const int size = 3;
  const auto comms = init_on_threads(size, &config);
  for (ncclComm_t comm : comms) {
    REQUIRE(comm != nullptr);
    REQUIRE(poll(comm) == ncclSuccess);
  }
  std::vector<int> data{1, 2, 3};
  for (std::size_t rank = 0; rank < 3; ++rank) {  // from one thread, without a group: none of them waits
    const ncclResult_t called = ncclAllReduce(&data[rank], &data[rank], 1, ncclInt32, ncclSum, comms[rank], nullptr);
    CHECK((called == ncclInProgress || called == ncclSuccess));
  }
  for (ncclComm_t comm : comms) CHECK(poll(comm) == ncclSuccess);
  CHECK(data == std::vector<int>{6, 6, 6});

  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t rank = 0; rank < 3; ++rank)
    CHECK(ncclAllReduce(&data[rank], &data[rank], 1, ncclInt32, ncclMax, comms[rank], nullptr) == ncclSuccess);
  const ncclResult_t ended = ncclGroupEnd();
  CHECK((ended == ncclInProgress || ended == ncclSuccess));
  for (ncclComm_t comm : comms) {
    const ncclResult_t finalized = ncclCommFinalize(comm);
    CHECK((finalized == ncclInProgress || finalized == ncclSuccess));
  }
  for (ncclComm_t comm : comms) CHECK(poll(comm) == ncclSuccess);
  CHECK(data == std::vector<int>{6, 6, 6});
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a communicator in the making is refused, and can be aborted") {
  const Variable patience("TUTTI_INIT_TIMEOUT", "3s");
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = config_of(0);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);  // nobody else comes
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  CHECK(reduce_one(comm) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(comm), Catch::Contains("in progress"));
  SECTION("aborted") { CHECK(ncclCommAbort(comm) == ncclSuccess); }
  SECTION("until its time is up") {
    CHECK(poll(comm) == ncclRemoteError);
    CHECK_THAT(ncclGetLastError(comm), Catch::Contains("rank"));
    CHECK(reduce_one(comm) == ncclInvalidUsage);
    CHECK_THAT(ncclGetLastError(comm), Catch::Contains("never connected"));
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
}

TEST_CASE("ranks with several ids meet") {
  std::vector<ncclUniqueId> ids(2);
  for (ncclUniqueId& id : ids) REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  const auto results = on_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitRankScalable(&comm, 3, rank, 2, ids.data(), nullptr);
    const ncclResult_t reduced = made == ncclSuccess ? reduce_one(comm) : made;
    ncclCommDestroy(comm);
    return reduced;
  });
  CHECK(results == all_succeed(3));
}

TEST_CASE("an init that fails says why and leaves no handle") {
  const Variable patience("TUTTI_INIT_TIMEOUT", "1s");
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto* comm = reinterpret_cast<ncclComm_t>(1);
  CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclRemoteError);
  CHECK(comm == nullptr);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::StartsWith("ncclCommInitRank: ") && Catch::Contains("1"));
}

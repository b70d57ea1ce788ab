// Bad arguments, one by one: the result, and the words of the message that name the value and what is valid.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "nccl_later.h"
#include "tests/nccl/ranks.h"

namespace {

struct Case {
  std::string name;
  std::function<ncclResult_t(ncclComm_t)> call;
  ncclResult_t result;
  std::vector<std::string> words;
};

int data[8];
const auto kBadType = static_cast<ncclDataType_t>(12);
const auto kBadOp = static_cast<ncclRedOp_t>(2'000'000'000);

std::vector<Case> operation_cases() {
  const auto argument = ncclInvalidArgument;
  return {
      {"all_reduce type",
       [](ncclComm_t c) { return ncclAllReduce(data, data, 1, kBadType, ncclSum, c, nullptr); },
       argument,
       {"ncclAllReduce", "datatype is 12", "0 (ncclInt8) to 11"}},
      {"negative type",
       [](ncclComm_t c) { return ncclAllGather(data, data, 1, static_cast<ncclDataType_t>(-1), c, nullptr); },
       argument,
       {"ncclAllGather", "datatype is -1"}},
      {"all_reduce op",
       [](ncclComm_t c) { return ncclAllReduce(data, data, 1, ncclInt32, kBadOp, c, nullptr); },
       argument,
       {"op is 2000000000", "0 (ncclSum) to 4 (ncclAvg)"}},
      {"reduce_scatter op",
       [](ncclComm_t c) {
         return ncclReduceScatter(data, data, 1, ncclInt32, static_cast<ncclRedOp_t>(-1), c, nullptr);
       },
       argument,
       {"ncclReduceScatter", "op is -1"}},
      {"all_reduce sendbuff",
       [](ncclComm_t c) { return ncclAllReduce(nullptr, data, 3, ncclInt32, ncclSum, c, nullptr); },
       argument,
       {"sendbuff is NULL", "count is 3"}},
      {"all_reduce recvbuff",
       [](ncclComm_t c) { return ncclAllReduce(data, nullptr, 3, ncclInt32, ncclSum, c, nullptr); },
       argument,
       {"recvbuff is NULL"}},
      {"broadcast root",
       [](ncclComm_t c) { return ncclBroadcast(data, data, 1, ncclInt32, 1, c, nullptr); },
       argument,
       {"ncclBroadcast", "root is 1", "0 to 0"}},
      {"bcast root",
       [](ncclComm_t c) { return ncclBcast(data, 1, ncclInt32, -1, c, nullptr); },
       argument,
       {"ncclBcast", "root is -1"}},
      {"reduce root",
       [](ncclComm_t c) { return ncclReduce(data, data, 1, ncclInt32, ncclSum, 5, c, nullptr); },
       argument,
       {"ncclReduce", "root is 5"}},
      {"gather root",
       [](ncclComm_t c) { return ncclGather(data, data, 1, ncclInt32, 5, c, nullptr); },
       argument,
       {"ncclGather", "root is 5"}},
      {"scatter root",
       [](ncclComm_t c) { return ncclScatter(data, data, 1, ncclInt32, 5, c, nullptr); },
       argument,
       {"ncclScatter", "root is 5"}},
      {"all_to_all recvbuff",
       [](ncclComm_t c) { return ncclAlltoAll(data, nullptr, 1, ncclInt32, c, nullptr); },
       argument,
       {"ncclAlltoAll", "recvbuff is NULL"}},
      {"send peer",
       [](ncclComm_t c) { return ncclSend(data, 1, ncclInt32, 1, c, nullptr); },
       argument,
       {"ncclSend", "peer is 1", "0 to 0"}},
      {"receive peer",
       [](ncclComm_t c) { return ncclRecv(data, 1, ncclInt32, -1, c, nullptr); },
       argument,
       {"ncclRecv", "peer is -1"}},
      {"receive buffer",
       [](ncclComm_t c) { return ncclRecv(nullptr, 1, ncclInt32, 0, c, nullptr); },
       argument,
       {"recvbuff is NULL"}},
      {"send type",
       [](ncclComm_t c) { return ncclSend(data, 1, kBadType, 0, c, nullptr); },
       argument,
       {"datatype is 12"}},
      {"a count beyond memory",
       [](ncclComm_t c) { return ncclAllReduce(data, data, SIZE_MAX / 2, ncclInt64, ncclSum, c, nullptr); },
       argument,
       {"count", "too large"}},
      {"overlap",
       [](ncclComm_t c) { return ncclAllReduce(data, data + 1, 4, ncclInt32, ncclSum, c, nullptr); },
       argument,
       {"overlap"}},
  };
}

std::vector<Case> other_cases() {
  const auto argument = ncclInvalidArgument;
  static ncclRedOp_t op;
  static ncclWindow_t window;
  static void* pointer;
  static uint64_t value;
  static ncclComm_t made;
  return {
      {"count", [](ncclComm_t c) { return ncclCommCount(c, nullptr); }, argument, {"count is NULL"}},
      {"rank", [](ncclComm_t c) { return ncclCommUserRank(c, nullptr); }, argument, {"rank is NULL"}},
      {"device", [](ncclComm_t c) { return ncclCommCuDevice(c, nullptr); }, argument, {"device is NULL"}},
      {"state", [](ncclComm_t c) { return ncclCommGetAsyncError(c, nullptr); }, argument, {"asyncError is NULL"}},
      {"split", [](ncclComm_t c) { return ncclCommSplit(c, 0, 0, nullptr, nullptr); }, argument, {"newcomm is NULL"}},
      {"scalar type",
       [](ncclComm_t c) { return ncclRedOpCreatePreMulSum(&op, data, kBadType, ncclScalarHostImmediate, c); },
       argument,
       {"datatype is 12"}},
      {"scalar residence",
       [](ncclComm_t c) {
         return ncclRedOpCreatePreMulSum(&op, data, ncclInt32, static_cast<ncclScalarResidence_t>(2), c);
       },
       argument,
       {"residence is 2"}},
      {"scalar",
       [](ncclComm_t c) { return ncclRedOpCreatePreMulSum(&op, nullptr, ncclInt32, ncclScalarHostImmediate, c); },
       argument,
       {"scalar is NULL"}},
      {"operator that is none", [](ncclComm_t c) { return ncclRedOpDestroy(ncclSum, c); }, argument, {"op is 0"}},
      {"register buffer", [](ncclComm_t c) { return ncclCommRegister(c, nullptr, 1, &pointer); }, argument, {"buff"}},
      {"register size", [](ncclComm_t c) { return ncclCommRegister(c, data, 0, &pointer); }, argument, {"size is 0"}},
      {"wrong handle", [](ncclComm_t c) { return ncclCommDeregister(c, data); }, argument, {"no registration"}},
      {"window flags",
       [](ncclComm_t c) { return ncclCommWindowRegister(c, data, 4, &window, 8); },
       argument,
       {"winFlags is 8"}},
      {"wrong window",
       [](ncclComm_t c) { return ncclCommWindowDeregister(c, reinterpret_cast<ncclWindow_t>(data)); },
       argument,
       {"no window"}},
      {"window's address",
       [](ncclComm_t c) { return ncclWinGetUserPtr(c, reinterpret_cast<ncclWindow_t>(data), &pointer); },
       argument,
       {"no window"}},
      {"suspend", [](ncclComm_t c) { return ncclCommSuspend(c, 0); }, argument, {"flags is 0"}},
      {"statistic",
       [](ncclComm_t c) { return ncclCommMemStats(c, static_cast<ncclCommMemStat_t>(4), &value); },
       argument,
       {"statistic is 4"}},
      {"signal", [](ncclComm_t c) { return ncclSignal(0, 0, 0, 0, c, nullptr); }, ncclInvalidUsage, {"one-sided"}},
      {"shrink", [](ncclComm_t c) { return ncclCommShrink(c, data, 1, &made, nullptr, 0); }, argument, {"0 to 0"}},
  };
}

void check(const std::vector<Case>& cases, ncclComm_t comm) {
  for (const Case& one : cases) {
    INFO(one.name);
    CHECK(one.call(comm) == one.result);
    const std::string said = ncclGetLastError(comm);
    INFO(said);
    CHECK_THAT(said, Catch::Contains("rank 0") || Catch::Contains("NULL"));
    for (const std::string& word : one.words) CHECK_THAT(said, Catch::Contains(word));
    CHECK(one.call(nullptr) == ncclInvalidArgument);
    CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("the communicator is NULL"));
  }
}

}  // namespace

TEST_CASE("bad arguments of operations are refused and change nothing") {
  const Ranks ranks(1);
  check(operation_cases(), ranks[0]);
  int value = 5;
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, ranks[0], nullptr) == ncclSuccess);
  ncclResult_t state = ncclInternalError;
  CHECK(ncclCommGetAsyncError(ranks[0], &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
}

TEST_CASE("bad arguments of other calls are refused") {
  const Ranks ranks(1);
  check(other_cases(), ranks[0]);
}

TEST_CASE("what was never a communicator is refused") {
  for (const std::uintptr_t address :
       {std::uintptr_t{1}, std::uintptr_t{8}, std::uintptr_t{0xdeadbeef}, ~std::uintptr_t{0}}) {
    const auto comm = reinterpret_cast<ncclComm_t>(address);
    int count = 0;
    CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
    CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
    CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
    CHECK_THAT(ncclGetLastError(comm), Catch::Contains("no communicator"));
  }
}

TEST_CASE("a rank alone leaves no meeting open") {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  for (int round = 0; round < 50; ++round) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
    REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  }
  for (int wait = 0; wait < 500 && descriptors() > before + 10; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(descriptors() <= before + 10);  // the engine's own, and what other tests leave
}

TEST_CASE("bad arguments of init are refused") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  const int twice[] = {1, 1}, negative[] = {0, -3};
  const auto refused = [&](ncclResult_t result, ncclResult_t expected, const std::string& words) {
    CHECK(result == expected);
    CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains(words));
  };
  refused(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument, "comm is NULL");
  refused(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument, "nranks is 0; valid: 1 or more");
  refused(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument, "rank is 2; valid: 0 to 1");
  refused(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument, "rank is -1");
  refused(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0), ncclInvalidArgument, "id");
  refused(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, nullptr), ncclInvalidArgument, "nId is 3");
  refused(ncclCommInitRankScalable(&comm, 2, 0, 1, nullptr, nullptr), ncclInvalidArgument, "commIds");
  refused(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument, "comm is NULL");
  refused(ncclCommInitAll(&comm, 0, nullptr), ncclInvalidArgument, "ndev is 0");
  refused(ncclCommInitAll(&comm, 2, twice), ncclInvalidUsage, "device 1 twice");
  refused(ncclCommInitAll(&comm, 2, negative), ncclInvalidArgument, "devlist[1] is -3");
  refused(ncclGetUniqueId(nullptr), ncclInvalidArgument, "uniqueId is NULL");
  refused(ncclGetVersion(nullptr), ncclInvalidArgument, "version is NULL");
  refused(ncclMemAlloc(nullptr, 1), ncclInvalidArgument, "ptr is NULL");
}

TEST_CASE("counts of 0 need no buffers") {
  const Ranks ranks(2);
  CHECK(on_threads(2, [&](int rank) {
          ncclResult_t first = ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, ranks[rank], nullptr);
          ncclResult_t second = ncclAllGather(nullptr, nullptr, 0, ncclFloat, ranks[rank], nullptr);
          ncclResult_t third = ncclBroadcast(nullptr, nullptr, 0, ncclFloat, 1, ranks[rank], nullptr);
          return first == ncclSuccess && second == ncclSuccess && third == ncclSuccess ? ncclSuccess
                                                                                       : ncclInternalError;
        }) == all_succeed(2));
}

TEST_CASE("a result has a text") {
  for (int result = 0; result < 12; ++result) {
    const char* text = ncclGetErrorString(static_cast<ncclResult_t>(result));
    REQUIRE(text != nullptr);
    CHECK(std::string(text).size() > 3);
    CHECK(std::string(text) == pncclGetErrorString(static_cast<ncclResult_t>(result)));
  }
  CHECK(std::string(ncclGetErrorString(ncclSuccess)) != ncclGetErrorString(ncclSystemError));
}

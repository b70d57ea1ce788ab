// Memory, registrations, windows, operators that are made.
#include "nccl_device.h"
#include "nccl_later.h"
#include "tests/nccl/ranks.h"

TEST_CASE("memory is given, used and taken back once") {
  void* memory = nullptr;
  REQUIRE(ncclMemAlloc(&memory, 1 << 20) == ncclSuccess);
  REQUIRE(memory != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT == 0);
  const Ranks ranks(2);
  auto* values = static_cast<int*>(memory);
  values[0] = 4;
  values[100] = 5;
  CHECK(on_threads(2, [&](int rank) {
          int* own = values + 100 * rank;
          return ncclAllReduce(own, own, 1, ncclInt32, ncclSum, ranks[rank], nullptr);
        }) == all_succeed(2));
  CHECK(values[0] == 9);
  CHECK(values[100] == 9);
  CHECK(ncclMemFree(values + 1) == ncclInvalidArgument);
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(ncclMemFree(memory) == ncclInvalidArgument);
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
  REQUIRE(ncclMemAlloc(&memory, 0) == ncclSuccess);
  CHECK(memory == nullptr);
  CHECK(ncclMemAlloc(&memory, SIZE_MAX / 2) == ncclInvalidArgument);
}

TEST_CASE("registrations are valid until they are given back, on their communicator") {
  const Ranks ranks(1), others(1);
  int data[4];
  void *first = nullptr, *second = nullptr;
  REQUIRE(ncclCommRegister(ranks[0], data, sizeof data, &first) == ncclSuccess);
  REQUIRE(ncclCommRegister(ranks[0], data, sizeof data, &second) == ncclSuccess);
  CHECK(first != second);
  CHECK(ncclCommDeregister(others[0], first) == ncclInvalidArgument);
  CHECK(ncclCommDeregister(ranks[0], first) == ncclSuccess);
  CHECK(ncclCommDeregister(ranks[0], first) == ncclInvalidArgument);
  CHECK(ncclCommDeregister(ranks[0], second) == ncclSuccess);
  CHECK(ncclCommDeregister(ranks[0], nullptr) == ncclSuccess);
}

TEST_CASE("windows know their address") {
  const Ranks ranks(1), others(1);
  int data[4];
  ncclWindow_t window = nullptr;
  void* address = nullptr;
  REQUIRE(ncclCommWindowRegister(ranks[0], data, sizeof data, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
  CHECK(ncclWinGetUserPtr(ranks[0], window, &address) == ncclSuccess);
  CHECK(address == data);
  CHECK(ncclWinGetUserPtr(others[0], window, &address) == ncclInvalidArgument);
  CHECK(ncclCommWindowDeregister(ranks[0], window) == ncclSuccess);
  CHECK(ncclCommWindowDeregister(ranks[0], window) == ncclInvalidArgument);
  CHECK(ncclCommWindowDeregister(ranks[0], nullptr) == ncclSuccess);
}

TEST_CASE("operators that are made belong to one communicator and type") {
  const Ranks ranks(1), others(1);
  float factor = 0.5f;
  ncclRedOp_t op{};
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, ranks[0]) == ncclSuccess);
  CHECK(op >= ncclNumOps);
  double value = 1;
  CHECK(ncclAllReduce(&value, &value, 1, ncclDouble, op, ranks[0], nullptr) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(ranks[0]), Catch::Contains("made for"));
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat, op, others[0], nullptr) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(op, others[0]) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(op, ranks[0]) == ncclSuccess);
  CHECK(ncclRedOpDestroy(op, ranks[0]) == ncclInvalidArgument);
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat, op, ranks[0], nullptr) == ncclInvalidArgument);
}

TEST_CASE("elements are multiplied by each rank's factor before they are summed") {
  const int size = 3;
  const bool immediate = GENERATE(true, false);
  const Ranks ranks(size);
  double factors[] = {0.5, 2, -1};
  std::vector<ncclRedOp_t> ops(3);
  for (int r = 0; r < size; ++r)
    REQUIRE(ncclRedOpCreatePreMulSum(&ops[static_cast<std::size_t>(r)], &factors[r], ncclDouble,
                                     immediate ? ncclScalarHostImmediate : ncclScalarDevice, ranks[r]) == ncclSuccess);
  for (double& factor : factors) factor *= 10;  // too late, unless it is read at the call
  const double scale = immediate ? 1 : 10;
  std::vector<std::vector<double>> data(3, std::vector<double>(9));
  const auto fill = [&] {
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t i = 0; i < 9; ++i) data[r][i] = static_cast<double>(100 * (r + 1) + i);
  };
  const auto expected = [&](std::size_t i) {
    const auto x = static_cast<double>(i);
    return scale * (0.5 * (100 + x) + 2 * (200 + x) - (300 + x));
  };
  fill();
  CHECK(on_threads(size, [&](int r) {
          const auto at = static_cast<std::size_t>(r);
          return ncclAllReduce(data[at].data(), data[at].data(), 9, ncclDouble, ops[at], ranks[r], nullptr);
        }) == all_succeed(size));
  for (const auto& own : data)
    for (std::size_t i = 0; i < 9; ++i) CHECK(own[i] == expected(i));
  fill();
  std::vector<double> part(9);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < size; ++r) {
    const auto at = static_cast<std::size_t>(r);
    REQUIRE(ncclReduceScatter(data[at].data(), &part[3 * at], 3, ncclDouble, ops[at], ranks[r], nullptr) ==
            ncclSuccess);
    REQUIRE(ncclReduce(data[at].data(), data[at].data(), 9, ncclDouble, ops[at], 1, ranks[r], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (std::size_t i = 0; i < 9; ++i) CHECK(part[i] == expected(i));
  for (std::size_t i = 0; i < 9; ++i) CHECK(data[1][i] == expected(i));
  for (int r = 0; r < size; ++r) CHECK(ncclRedOpDestroy(ops[static_cast<std::size_t>(r)], ranks[r]) == ncclSuccess);
}

TEST_CASE("what needs hardware that is not there is refused with a reason") {
  const Ranks ranks(2);
  ncclDevCommRequirements_t wanted{};
  CHECK(ncclDevCommCreate(ranks[0], &wanted, nullptr) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(ranks[0]), Catch::Contains("device interface"));
  CHECK(ncclDevCommDestroy(ranks[0], nullptr) == ncclInvalidUsage);
  CHECK(ncclWaitSignal(0, nullptr, ranks[0], nullptr) == ncclInvalidUsage);
  uint64_t bytes = 7;
  CHECK(ncclCommMemStats(ranks[0], ncclStatGpuMemTotal, &bytes) == ncclSuccess);
  CHECK(bytes == 0);
  CHECK(ncclCommSuspend(ranks[0], NCCL_SUSPEND_MEM) == ncclSuccess);
  CHECK(ncclCommResume(ranks[0]) == ncclSuccess);
}

TEST_CASE("teams are arithmetic") {
  const Ranks ranks(3);
  const ncclTeam_t world = ncclTeamWorld(ranks[1]), own = ncclTeamLsa(ranks[1]), rail = ncclTeamRail(ranks[1]);
  CHECK(std::vector<int>{world.nRanks, world.rank, world.stride} == std::vector<int>{3, 1, 1});
  CHECK(std::vector<int>{own.nRanks, own.rank, own.stride} == std::vector<int>{1, 0, 1});
  CHECK(std::vector<int>{rail.nRanks, rail.rank, rail.stride} == std::vector<int>{3, 1, 1});
  CHECK(ncclTeamRankToWorld(ranks[1], world, 2) == 2);
  CHECK(ncclTeamRankToWorld(ranks[1], own, 0) == 1);
  CHECK(ncclTeamRankToLsa(ranks[1], world, 1) == 0);
  CHECK(ncclTeamWorld(nullptr).nRanks == 0);
  CHECK(ncclTeamRankToWorld(nullptr, world, 0) == -1);
}

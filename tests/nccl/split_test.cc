// ncclCommSplit, ncclCommShrink, ncclCommGrow.
#include <climits>

#include "nccl_later.h"
#include "tests/nccl/ranks.h"

namespace {

struct Child {
  ncclResult_t result = ncclInternalError;
  ncclComm_t comm = nullptr;
  int rank = -1, size = -1;
  int sum = 0;  // of the parent's ranks, by an all-reduce on the child
};

bool operator==(const Child& a, const Child& b) {
  return a.result == b.result && a.rank == b.rank && a.size == b.size && a.sum == b.sum &&
         (a.comm == nullptr) == (b.comm == nullptr);
}

std::ostream& operator<<(std::ostream& out, const Child& child) {
  return out << "{" << child.result << ", rank " << child.rank << " of " << child.size << ", sum " << child.sum << "}";
}

Child look_into(Child child, int parent_rank) {
  if (child.comm == nullptr) return child;
  ncclCommUserRank(child.comm, &child.rank);
  ncclCommCount(child.comm, &child.size);
  const ncclResult_t reduced = ncclAllReduce(&parent_rank, &child.sum, 1, ncclInt32, ncclSum, child.comm, nullptr);
  if (reduced == ncclInProgress) child.result = poll(child.comm);
  if (reduced != ncclSuccess && reduced != ncclInProgress) child.result = reduced;
  return child;
}

std::vector<Child> split(const Ranks& parents, const std::vector<int>& colors, const std::vector<int>& keys,
                         ncclConfig_t* config = nullptr) {
  return on_threads(parents.size(), [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    Child child;
    child.result = ncclCommSplit(parents[rank], colors[at], keys[at], &child.comm, config);
    if (child.result == ncclInProgress) child.result = poll(child.comm != nullptr ? child.comm : parents[rank]);
    return look_into(child, rank);
  });
}

void destroy(const std::vector<Child>& children) {
  for (const Child& child : children) CHECK(ncclCommDestroy(child.comm) == ncclSuccess);
}

const ncclComm_t kSome = reinterpret_cast<ncclComm_t>(1);

}  // namespace

TEST_CASE("ranks of one colour are ordered by key, then by rank") {
  const Ranks parents(6);
  const auto expect = [&](const std::vector<int>& keys, const std::vector<int>& ranks) {
    const auto children = split(parents, std::vector<int>(6, 3), keys);
    for (std::size_t at = 0; at < 6; ++at) CHECK(children[at] == Child{ncclSuccess, kSome, ranks[at], 6, 15});
    destroy(children);
  };
  expect({2, 1, 2, 1, 0, 1}, {4, 1, 5, 2, 0, 3});
  expect({0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5});
  expect({INT_MAX, INT_MIN, 0, -1, 1, INT_MIN}, {5, 0, 3, 2, 4, 1});
}

TEST_CASE("each colour is a communicator, and no colour is none") {
  const Ranks parents(5);
  const auto children = split(parents, {7, NCCL_SPLIT_NOCOLOR, INT_MAX, 7, 0}, {1, 0, 0, 0, 0});
  CHECK(children[0] == Child{ncclSuccess, kSome, 1, 2, 3});
  CHECK(children[1] == Child{ncclSuccess, nullptr, -1, -1, 0});
  CHECK(children[2] == Child{ncclSuccess, kSome, 0, 1, 2});
  CHECK(children[3] == Child{ncclSuccess, kSome, 0, 2, 3});
  CHECK(children[4] == Child{ncclSuccess, kSome, 0, 1, 4});
  // The parent lives on beside them, and after them.
  destroy(children);
  CHECK(on_threads(5, [&](int rank) {
          int one = 1, sum = 0;
          const ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, parents[rank], nullptr);
          return result == ncclSuccess ? sum : -1;
        }) == std::vector<int>(5, 5));
}

TEST_CASE("a split in one thread goes in a group") {
  const Ranks parents(4);
  std::vector<ncclComm_t> children(4), grandchildren(4);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 4; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    REQUIRE(ncclCommSplit(parents[rank], rank % 2, 0, &children[at], nullptr) == ncclSuccess);
    REQUIRE(ncclCommSplit(parents[rank], 0, -rank, &grandchildren[at], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int rank = 0; rank < 4; ++rank) {
    int own = -1;
    REQUIRE(ncclCommUserRank(children[static_cast<std::size_t>(rank)], &own) == ncclSuccess);
    CHECK(own == rank / 2);
    REQUIRE(ncclCommUserRank(grandchildren[static_cast<std::size_t>(rank)], &own) == ncclSuccess);
    CHECK(own == 3 - rank);
  }
  for (ncclComm_t comm : children) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  for (ncclComm_t comm : grandchildren) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a split without blocking is done when the child says so") {
  const Ranks parents(4);
  ncclConfig_t config = config_of(0);
  const auto children = split(parents, {0, 0, 1, NCCL_SPLIT_NOCOLOR}, {0, 0, 0, 0}, &config);
  CHECK(children[0] == Child{ncclSuccess, kSome, 0, 2, 1});
  CHECK(children[1] == Child{ncclSuccess, kSome, 1, 2, 1});
  CHECK(children[2] == Child{ncclSuccess, kSome, 0, 1, 2});
  CHECK(children[3] == Child{ncclSuccess, nullptr, -1, -1, 0});
  destroy(children);
  // A rank that has seen its child ready may use the parent.
  CHECK(on_threads(4, [&](int rank) {
          int value = 1;
          return ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, parents[rank], nullptr);
        }) == all_succeed(4));
}

TEST_CASE("a rank whose arguments are wrong fails the split for all at once, and the parent stays") {
  const Ranks parents(3);
  const auto children = split(parents, {0, -2, 0}, {0, 0, 0});
  CHECK(children[0].result == ncclInvalidUsage);
  CHECK(children[1].result == ncclInvalidArgument);
  CHECK(children[2].result == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(parents[0]), Catch::Contains("rank 1"));
  CHECK_THAT(ncclGetLastError(parents[1]), Catch::Contains("color is -2"));
  for (const Child& child : children) CHECK(child.comm == nullptr);
  const auto again = split(parents, {0, 0, 0}, {0, 0, 0});
  for (const Child& child : again) CHECK(child.result == ncclSuccess);
  destroy(again);
}

TEST_CASE("a rank that gives no place for the child fails the split for all at once") {
  const Ranks parents(3);
  const auto results = on_threads(3, [&](int rank) {
    ncclComm_t child = nullptr;
    return ncclCommSplit(parents[rank], 0, 0, rank == 2 ? nullptr : &child, nullptr);
  });
  CHECK(results[0] == ncclInvalidUsage);
  CHECK(results[1] == ncclInvalidUsage);
  CHECK(results[2] == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(parents[2]), Catch::Contains("newcomm"));
}

TEST_CASE("children of children") {
  const Ranks parents(4);
  const auto children = split(parents, {0, 0, 1, 1}, {0, 1, 0, 1});
  const auto sums = on_threads(4, [&](int rank) {
    Child grandchild;
    ncclComm_t child = children[static_cast<std::size_t>(rank)].comm;
    grandchild.result = ncclCommSplit(child, rank % 2, 0, &grandchild.comm, nullptr);
    grandchild = look_into(grandchild, rank);
    ncclCommDestroy(grandchild.comm);
    return grandchild.sum;
  });
  CHECK(sums == std::vector<int>{0, 1, 2, 3});
  destroy(children);
}

TEST_CASE("ranks join a communicator") {
  const Ranks old(2);
  ncclUniqueId id;
  REQUIRE(ncclCommGetUniqueId(old[1], &id) == ncclSuccess);
  const auto grown = on_threads(4, [&](int rank) {
    Child child;
    child.result = rank < 2 ? ncclCommGrow(old[rank], 4, rank == 1 ? &id : nullptr, -1, &child.comm, nullptr)
                            : ncclCommGrow(nullptr, 4, &id, rank, &child.comm, nullptr);
    return look_into(child, rank);
  });
  for (int rank = 0; rank < 4; ++rank)
    CHECK(grown[static_cast<std::size_t>(rank)] == Child{ncclSuccess, kSome, rank, 4, 6});
  destroy(grown);
}

TEST_CASE("ranks go on without some of them, which say nothing") {
  const Ranks old(4);
  const int flags = GENERATE(NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT);
  const auto shrunk = on_threads(4, [&](int rank) {
    Child child;
    int out[] = {2, 0};
    if (rank == 1 || rank == 3) child.result = ncclCommShrink(old[rank], out, 2, &child.comm, nullptr, flags);
    return look_into(child, rank);
  });
  CHECK(shrunk[1] == Child{ncclSuccess, kSome, 0, 2, 4});
  CHECK(shrunk[3] == Child{ncclSuccess, kSome, 1, 2, 4});
  for (int rank : {1, 3}) CHECK(ncclCommDestroy(shrunk[static_cast<std::size_t>(rank)].comm) == ncclSuccess);
}

TEST_CASE("the ranks that are left go on after one has died") {
  std::vector<ncclComm_t> comms(3);
  REQUIRE(ncclCommInitAll(comms.data(), 3, nullptr) == ncclSuccess);
  REQUIRE(ncclCommDestroy(comms[0]) == ncclSuccess);
  const auto shrunk = on_threads(3, [&](int rank) {
    Child child;
    if (rank == 0) return child;
    ncclComm_t comm = comms[static_cast<std::size_t>(rank)];
    int value = 1, out[] = {0};
    if (ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr) == ncclSuccess) return child;
    child.result = ncclCommShrink(comm, out, 1, &child.comm, nullptr, NCCL_SHRINK_ABORT);
    return look_into(child, rank);
  });
  for (std::size_t rank : {1, 2}) {
    CHECK(shrunk[rank] == Child{ncclSuccess, kSome, static_cast<int>(rank) - 1, 2, 3});
    CHECK(ncclCommDestroy(shrunk[rank].comm) == ncclSuccess);
    CHECK(ncclCommDestroy(comms[rank]) == ncclSuccess);
  }
}

TEST_CASE("the arguments of shrink and grow are checked") {
  const Ranks ranks(3);
  ncclComm_t made = nullptr;
  int list[3] = {1, 3, 0};
  CHECK(ncclCommShrink(ranks[0], list, 2, &made, nullptr, 0) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(ranks[0]), Catch::Contains("excludeRanksList[1] is 3; valid: 0 to 2"));
  CHECK(ncclCommShrink(ranks[0], list, 3, &made, nullptr, 0) == ncclInvalidArgument);
  CHECK(ncclCommShrink(ranks[1], list, 1, &made, nullptr, 0) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(ranks[1]), Catch::Contains("itself"));
  CHECK(ncclCommShrink(ranks[0], nullptr, 1, &made, nullptr, 0) == ncclInvalidArgument);
  CHECK(ncclCommShrink(ranks[0], list, 1, &made, nullptr, 2) == ncclInvalidArgument);
  CHECK(ncclCommShrink(ranks[0], list, 1, nullptr, nullptr, 0) == ncclInvalidArgument);
  const auto grown = on_threads(3, [&](int rank) {
    ncclComm_t none = nullptr;
    return ncclCommGrow(ranks[rank], 3 + rank, nullptr, rank - 1, &none, nullptr);
  });
  CHECK(grown == std::vector<ncclResult_t>(3, ncclInvalidArgument));
  CHECK_THAT(ncclGetLastError(ranks[0]), Catch::Contains("nRanks is 3; valid: 4 or more"));
  CHECK_THAT(ncclGetLastError(ranks[2]), Catch::Contains("rank is 1"));
  CHECK(ncclCommGrow(nullptr, 4, nullptr, 3, &made, nullptr) == ncclInvalidArgument);
}

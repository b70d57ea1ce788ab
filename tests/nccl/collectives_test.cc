// Every collective, out of place and in place, in groups and on threads; messages from rank to rank.
#include <algorithm>
#include <cstdint>
#include <random>

#include "tests/nccl/ranks.h"

namespace {

constexpr std::size_t kCount = 300;
using Values = std::vector<std::int64_t>;

// Element i of rank r's block b.
std::int64_t value_of(int rank, std::size_t block, std::size_t i) {
  return 1'000'000 * (rank + 1) + 10'000 * static_cast<std::int64_t>(block) + static_cast<std::int64_t>(i);
}

Values blocks_of(int rank, int blocks) {
  Values values;
  for (int block = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < kCount; ++i) values.push_back(value_of(rank, static_cast<std::size_t>(block), i));
  return values;
}

Values sum_of_block(int ranks, std::size_t block) {
  Values sum(kCount);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += value_of(rank, block, i);
  return sum;
}

// Block `block` of every rank, one after another.
Values block_of_all(int ranks, std::size_t block) {
  Values values;
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < kCount; ++i) values.push_back(value_of(rank, block, i));
  return values;
}

// Runs call(rank) for all ranks: in one group of this thread, or on threads.
template <class Call>
void run_all(int size, bool grouped, Call call) {
  if (!grouped) {
    REQUIRE(on_threads(size, call) == all_succeed(size));
    return;
  }
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < size; ++rank) REQUIRE(call(rank) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
}

struct Buffers {
  std::vector<Values> in, out;
  Buffers(int size, int in_blocks, int out_blocks) {
    for (int rank = 0; rank < size; ++rank) {
      in.push_back(blocks_of(rank, in_blocks));
      out.emplace_back(kCount * static_cast<std::size_t>(out_blocks), -1);
    }
  }
  std::int64_t* input(int rank) { return in[static_cast<std::size_t>(rank)].data(); }
  std::int64_t* output(int rank) { return out[static_cast<std::size_t>(rank)].data(); }
};

}  // namespace

TEST_CASE("every collective gives what it should, out of place") {
  const int size = GENERATE(1, 2, 3, 4);
  const bool grouped = GENERATE(false, true);
  const int root = size - 1;
  const Ranks ranks(size);
  const Values untouched(kCount, -1);
  {
    Buffers b(size, 1, 1);
    run_all(size, grouped, [&](int r) {
      return ncclAllReduce(b.input(r), b.output(r), kCount, ncclInt64, ncclSum, ranks[r], nullptr);
    });
    for (const Values& out : b.out) CHECK(out == sum_of_block(size, 0));
  }
  {
    Buffers b(size, 1, 1);
    run_all(size, grouped, [&](int r) {
      return ncclReduce(b.input(r), r == root ? b.output(r) : nullptr, kCount, ncclInt64, ncclSum, root, ranks[r],
                        nullptr);
    });
    for (int r = 0; r < size; ++r)
      CHECK(b.out[static_cast<std::size_t>(r)] == (r == root ? sum_of_block(size, 0) : untouched));
  }
  {
    Buffers b(size, 1, 1);
    run_all(size, grouped, [&](int r) {
      return ncclBroadcast(r == root ? b.input(r) : nullptr, b.output(r), kCount, ncclInt64, root, ranks[r], nullptr);
    });
    for (const Values& out : b.out) CHECK(out == blocks_of(root, 1));
  }
  {
    Buffers b(size, 1, size);
    run_all(size, grouped,
            [&](int r) { return ncclAllGather(b.input(r), b.output(r), kCount, ncclInt64, ranks[r], nullptr); });
    for (const Values& out : b.out) CHECK(out == block_of_all(size, 0));
  }
  {
    Buffers b(size, size, 1);
    run_all(size, grouped, [&](int r) {
      return ncclReduceScatter(b.input(r), b.output(r), kCount, ncclInt64, ncclSum, ranks[r], nullptr);
    });
    for (std::size_t r = 0; r < b.out.size(); ++r) CHECK(b.out[r] == sum_of_block(size, r));
  }
  {
    Buffers b(size, size, size);
    run_all(size, grouped,
            [&](int r) { return ncclAlltoAll(b.input(r), b.output(r), kCount, ncclInt64, ranks[r], nullptr); });
    for (std::size_t r = 0; r < b.out.size(); ++r) CHECK(b.out[r] == block_of_all(size, r));
  }
  {
    Buffers b(size, 1, size);
    run_all(size, grouped, [&](int r) {
      return ncclGather(b.input(r), r == root ? b.output(r) : nullptr, kCount, ncclInt64, root, ranks[r], nullptr);
    });
    CHECK(b.out.back() == block_of_all(size, 0));
  }
  {
    Buffers b(size, size, 1);
    run_all(size, grouped, [&](int r) {
      return ncclScatter(r == root ? b.input(r) : nullptr, b.output(r), kCount, ncclInt64, root, ranks[r], nullptr);
    });
    const Values all = blocks_of(root, size);
    for (std::size_t r = 0; r < b.out.size(); ++r) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * kCount);
      CHECK(b.out[r] == Values(begin, begin + static_cast<std::ptrdiff_t>(kCount)));
    }
  }
}

TEST_CASE("every collective that has a form in place gives the same there") {
  const int size = GENERATE(1, 3);
  const bool grouped = GENERATE(false, true);
  const Ranks ranks(size);
  const int root = 0;
  const auto own_block = [&](Buffers& b, int r) { return b.output(r) + static_cast<std::size_t>(r) * kCount; };
  {
    Buffers b(size, 1, 1);
    run_all(size, grouped, [&](int r) {
      return ncclReduce(b.input(r), b.input(r), kCount, ncclInt64, ncclSum, root, ranks[r], nullptr);
    });
    CHECK(b.in[0] == sum_of_block(size, 0));
  }
  {
    Buffers b(size, 1, 1);
    run_all(size, grouped, [&](int r) { return ncclBcast(b.input(r), kCount, ncclInt64, root, ranks[r], nullptr); });
    for (const Values& in : b.in) CHECK(in == blocks_of(root, 1));
  }
  {
    Buffers b(size, 1, size);
    for (int r = 0; r < size; ++r) std::copy_n(b.input(r), kCount, own_block(b, r));
    run_all(size, grouped,
            [&](int r) { return ncclAllGather(own_block(b, r), b.output(r), kCount, ncclInt64, ranks[r], nullptr); });
    for (const Values& out : b.out) CHECK(out == block_of_all(size, 0));
  }
  {
    Buffers b(size, size, 1);
    run_all(size, grouped, [&](int r) {
      std::int64_t* own = b.input(r) + static_cast<std::size_t>(r) * kCount;
      return ncclReduceScatter(b.input(r), own, kCount, ncclInt64, ncclSum, ranks[r], nullptr);
    });
    for (std::size_t r = 0; r < b.in.size(); ++r) {
      const auto begin = b.in[r].begin() + static_cast<std::ptrdiff_t>(r * kCount);
      CHECK(Values(begin, begin + static_cast<std::ptrdiff_t>(kCount)) == sum_of_block(size, r));
    }
  }
  {
    Buffers b(size, 1, size);
    std::copy_n(b.input(root), kCount, b.output(root));
    run_all(size, grouped, [&](int r) {
      return ncclGather(r == root ? b.output(r) : b.input(r), b.output(r), kCount, ncclInt64, root, ranks[r], nullptr);
    });
    CHECK(b.out[0] == block_of_all(size, 0));
  }
  {
    Buffers b(size, size, 1);
    run_all(size, grouped, [&](int r) {
      return ncclScatter(b.input(r), r == root ? b.input(r) : b.output(r), kCount, ncclInt64, root, ranks[r], nullptr);
    });
    const Values all = blocks_of(root, size);
    CHECK(b.in[0] == all);
    for (int r = 1; r < size; ++r)
      CHECK(std::equal(b.output(r), b.output(r) + kCount, all.begin() + r * static_cast<std::ptrdiff_t>(kCount)));
  }
}

TEST_CASE("a group may hold every collective and messages at once") {
  const int size = 3;
  const Ranks ranks(size);
  std::vector<int> sum(3), broadcast(3), got(3);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < size; ++r) {
    const auto at = static_cast<std::size_t>(r);
    sum[at] = r + 1;
    broadcast[at] = 10 * r;
    // Each rank names its messages and collectives in another order.
    const auto send = [&] { return ncclSend(&broadcast[at], 1, ncclInt32, (r + 1) % size, ranks[r], nullptr); };
    const auto receive = [&] { return ncclRecv(&got[at], 1, ncclInt32, (r + size - 1) % size, ranks[r], nullptr); };
    if (r == 0) REQUIRE(send() == ncclSuccess);
    REQUIRE(ncclAllReduce(&sum[at], &sum[at], 1, ncclInt32, ncclSum, ranks[r], nullptr) == ncclSuccess);
    if (r == 1) REQUIRE(receive() == ncclSuccess);
    REQUIRE(ncclBcast(&broadcast[at], 1, ncclInt32, 1, ranks[r], nullptr) == ncclSuccess);
    if (r != 0) REQUIRE(send() == ncclSuccess);
    if (r != 1) REQUIRE(receive() == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(sum == std::vector<int>{6, 6, 6});
  CHECK(broadcast == std::vector<int>{10, 10, 10});
  CHECK(got == std::vector<int>{10, 10, 10});  // sent after the broadcast
}

// The k-th send from a to b has table(a, b)[k] elements, some none; all ranks of it in one group each.
TEST_CASE("messages of a group land in the receives that they match, whatever their sizes") {
  const int size = 4;
  const bool one_thread = GENERATE(false, true);
  const Ranks ranks(size);
  std::mt19937 random(7);
  const std::vector<std::size_t> sizes{0, 1, 2, 63, 1000, 5000, 40'000};
  for (int round = 0; round < 6; ++round) {
    std::size_t counts[4][4][2];
    std::vector<int> sent[4][4][2], got[4][4][2];
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b)
        for (int k = 0; k < 2; ++k) {
          counts[a][b][k] = sizes[random() % sizes.size()];
          sent[a][b][k].assign(counts[a][b][k], 100 * a + 10 * b + k + 1);
          got[a][b][k].assign(counts[a][b][k], 0);
        }
    const auto messages = [&](int self) {
      for (int peer = 0; peer < size; ++peer)
        for (int k = 0; k < 2; ++k) {
          auto& out = sent[self][peer][k];
          auto& in = got[peer][self][k];
          if (ncclSend(out.data(), out.size(), ncclInt32, peer, ranks[self], nullptr) != ncclSuccess ||
              ncclRecv(in.data(), in.size(), ncclInt32, peer, ranks[self], nullptr) != ncclSuccess)
            return ncclInternalError;
        }
      return ncclSuccess;
    };
    if (one_thread) {
      run_all(size, true, messages);
    } else {
      REQUIRE(on_threads(size, [&](int self) {
                ncclGroupStart();
                const ncclResult_t called = messages(self);
                const ncclResult_t ended = ncclGroupEnd();
                return called != ncclSuccess ? called : ended;
              }) == all_succeed(size));
    }
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b)
        for (int k = 0; k < 2; ++k) CHECK(got[a][b][k] == sent[a][b][k]);
  }
}

TEST_CASE("messages without a group match by order") {
  const Ranks ranks(2);
  std::vector<int> large(100'000, 5), into(100'000);
  CHECK(on_threads(2, [&](int rank) {
          if (rank == 0) return ncclSend(large.data(), large.size(), ncclInt32, 1, ranks[0], nullptr);
          return ncclRecv(into.data(), into.size(), ncclInt32, 0, ranks[1], nullptr);
        }) == all_succeed(2));
  CHECK(into == large);
}

TEST_CASE("a message of another length than its receive is an error that names both") {
  const Ranks ranks(2);
  std::vector<int> data(10);
  const auto results = on_threads(2, [&](int rank) {
    if (rank == 0) return ncclSend(data.data(), 3, ncclInt32, 1, ranks[0], nullptr);
    return ncclRecv(data.data(), 4, ncclInt32, 0, ranks[1], nullptr);
  });
  CHECK(results[1] == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(ranks[1]), Catch::Contains("3") && Catch::Contains("4"));
}

TEST_CASE("calls of ranks that do not fit together are an error on each") {
  const Ranks ranks(2);
  int value = 1;
  std::vector<int> data(10);
  const auto results = on_threads(2, [&](int rank) {
    if (rank == 0) return ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, ranks[0], nullptr);
    return ncclAllReduce(data.data(), data.data(), 2, ncclInt32, ncclSum, ranks[1], nullptr);
  });
  CHECK(results == std::vector<ncclResult_t>(2, ncclInvalidUsage));
}

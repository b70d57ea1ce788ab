// Messages that are lent and placed: ranks as threads with any memory, ranks as processes with memory of tutti::alloc.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "src/runtime/memory.h"
#include "tests/runtime/ranks.h"
#include "tutti/memory.h"

using namespace tutti;
using tutti::test::in_processes;
using tutti::test::on_threads;

namespace {

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// Mappings of memfds in this process: arenas and segments, the own ones and those of peers.
std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:tutti") != std::string::npos;
  return found;
}

std::int32_t value(int rank, std::size_t index) { return static_cast<std::int32_t>(rank * 1000 + index % 977); }

std::int32_t expected(int ranks, std::size_t index) {
  return ranks * (ranks - 1) / 2 * 1000 + ranks * static_cast<std::int32_t>(index % 977);
}

// One all_reduce of `count` int32 from `input` to `output`; the buffers' other contents must not change.
void check_sum(Communicator& comm, std::byte* input, std::byte* output, std::size_t count, const std::string& what) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(comm.rank(), i);
  std::memcpy(input, values.data(), count * 4);
  comm.all_reduce(input, output, count, DataType::int32);
  if (input != output) expect(std::memcmp(input, values.data(), count * 4) == 0, what + ": the input was changed");
  std::memcpy(values.data(), output, count * 4);
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != expected(comm.size(), i))
      throw std::runtime_error(what + ": element " + std::to_string(i) + " of " + std::to_string(count) + " is " +
                               std::to_string(values[i]));
  // Ruined at once: whoever still read or wrote here would be found out.
  std::memset(input, 0xEE, count * 4);
  std::memset(output, 0xEE, count * 4);
  comm.barrier();
  const auto changed = std::find_if(output, output + count * 4, [](std::byte b) { return b != std::byte{0xEE}; });
  expect(changed == output + count * 4, what + ": written after its end");
}

constexpr std::size_t kCounts[] = {1, 40'000, 300'007};
constexpr std::size_t kMost = 300'007 * 4 + 64;

// avg of float16 scales contributions before they are summed, which falls to the reader of a lent message.
void check_averages(Communicator& comm, std::byte* data) {
  constexpr std::size_t count = 100'000;
  const std::vector<std::uint16_t> threes(count, 0x4200);  // 3.0
  std::memcpy(data, threes.data(), count * 2);
  comm.all_reduce(data, data, count, DataType::float16, ReduceOp::avg);
  expect(std::memcmp(data, threes.data(), count * 2) == 0, "the average of equal float16");
}

// So does premul_sum, and a reader must apply the factor of whom the message comes from.
void check_premultiplied(Communicator& comm, const std::byte* input, std::byte* output) {
  constexpr std::size_t count = 100'000;
  const std::vector<std::uint16_t> threes(count, 0x4200);
  std::memcpy(const_cast<std::byte*>(input), threes.data(), count * 2);
  comm.all_reduce(input, output, count, DataType::float16, static_cast<float>(1 << comm.rank()));
  const int sum = 3 * ((1 << comm.size()) - 1);  // of at most 10 bits: exact
  const int exponent = std::bit_width(static_cast<unsigned>(sum)) - 1;
  const auto code = static_cast<std::uint16_t>((exponent + 15) << 10 | (sum << (10 - exponent) & 0x3ff));
  const std::vector<std::uint16_t> expected_codes(count, code);
  expect(std::memcmp(output, expected_codes.data(), count * 2) == 0, "the sum of float16 by different factors");
}

void check_all(Communicator& comm, std::byte* input, std::byte* output) {
  for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
    comm.force_algorithm(algorithm);
    for (const std::size_t count : kCounts) {
      check_sum(comm, input, output, count, algorithm);
      check_sum(comm, output, output, count, algorithm + " in place");
      check_sum(comm, input + 3, output + 17, count, algorithm + " misaligned");
    }
    check_averages(comm, input);
    check_premultiplied(comm, input, output);
    check_premultiplied(comm, output, output);
  }
  const std::size_t count = 100'000;
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (const std::string& algorithm : comm.algorithms(Collective::all_gather)) {
    comm.force_algorithm(algorithm);
    const std::size_t each = kMost / 4 / ranks;
    std::vector<std::int32_t> all(each * ranks);
    for (std::size_t i = 0; i < each; ++i) all[i] = value(comm.rank(), i);
    std::memcpy(input, all.data(), each * 4);
    comm.all_gather(input, output, each, DataType::int32);
    std::memcpy(all.data(), output, each * ranks * 4);
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < each; ++i)
        if (all[r * each + i] != value(static_cast<int>(r), i)) throw std::runtime_error(algorithm + " all_gather");
  }
  for (const std::string& algorithm : comm.algorithms(Collective::broadcast)) {
    comm.force_algorithm(algorithm);
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<std::int32_t> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = value(root, i);
      if (comm.rank() == root) std::memcpy(output, values.data(), count * 4);
      comm.broadcast(output, count, DataType::int32, root);
      expect(std::memcmp(output, values.data(), count * 4) == 0, algorithm + " broadcast");
    }
  }
}

}  // namespace

TEST_CASE("ranks as threads: any memory, every algorithm, in place and not, misaligned") {
  for (const int ranks : {2, 3, 5, 8})
    on_threads(ranks, [](Communicator& comm) {
      std::vector<std::byte> input(kMost), output(kMost);
      check_all(comm, input.data(), output.data());
    });
}

TEST_CASE("ranks as processes: memory of tutti::alloc, of some ranks or of all, is reached by the others") {
  for (const int ranks : {2, 3, 4})
    for (const unsigned ordinary : {0u, 1u, 5u})  // a bit for each rank that has memory of malloc
      for (const auto& ending : in_processes(ranks, [&](Communicator& comm) -> std::string {
             std::vector<std::byte> in(kMost), out(kMost);
             Memory input = alloc(kMost), output = alloc(kMost);
             comm.barrier();
             const std::size_t before = shared_mappings();
             const bool mine = (ordinary >> comm.rank() & 1) == 0;
             check_all(comm, mine ? input.data() : in.data(), mine ? output.data() : out.data());
             // Peers that have such memory were read and written where it lies.
             const bool reached = shared_mappings() > before;
             const bool some = (~ordinary & ((1u << comm.size()) - 1) & ~(1u << comm.rank())) != 0;
             return reached == some ? "" : "mappings of peers: " + std::to_string(reached);
           })) {
        INFO(ranks << " ranks, ordinary " << ordinary << ": " << ending.message);
        REQUIRE(ending.status == 0);
        REQUIRE(ending.message.empty());
      }
}

TEST_CASE("memory may come and go between calls, and peers do not keep it") {
  for (const auto& ending : in_processes(2, [](Communicator& comm) -> std::string {
         std::size_t most = 0;
         for (int round = 0; round < 80; ++round) {
           Memory data = alloc(200'000 + static_cast<std::size_t>(round) * 4096);
           check_sum(comm, data.data(), data.data(), 50'000, "round " + std::to_string(round));
           most = std::max(most, shared_mappings());
         }
         return most < 75 ? "" : std::to_string(most) + " mappings";
       })) {
    INFO(ending.message);
    REQUIRE(ending.status == 0);
    REQUIRE(ending.message.empty());
  }
}

namespace {

// All ranks sum again and again until rank 0 aborts; then nobody may touch a buffer that its owner has back.
std::string abort_in_the_midst(Communicator& comm, std::byte* data, std::size_t bytes) {
  std::jthread aborter;
  if (comm.rank() == 0)
    aborter = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      comm.abort("enough");
    });
  try {
    for (;;) comm.all_reduce(data, data, bytes / 4, DataType::float32);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::aborted) return error.what();
  }
  std::memset(data, 0x5A, bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto changed = std::find_if(data, data + bytes, [](std::byte b) { return b != std::byte{0x5A}; });
  return changed == data + bytes ? "" : "a byte was written after the abort";
}

}  // namespace

TEST_CASE("after an abort nobody touches the buffers: ranks as threads") {
  for (int round = 0; round < 5; ++round)
    on_threads(4, [](Communicator& comm) {
      std::vector<std::byte> data(std::size_t{8} << 20);
      expect(abort_in_the_midst(comm, data.data(), data.size()).empty(), "after the abort");
    });
}

TEST_CASE("after an abort nobody touches the buffers: ranks as processes") {
  for (int round = 0; round < 5; ++round)
    for (const auto& ending : in_processes(3, [](Communicator& comm) {
           const Memory data = alloc(std::size_t{8} << 20);
           return abort_in_the_midst(comm, data.data(), data.size());
         })) {
      INFO(ending.message);
      REQUIRE(ending.status == 0);
      REQUIRE(ending.message.empty());
    }
}

TEST_CASE("alloc gives zeroed, page-aligned memory that the registry knows until it is freed") {
  const std::byte* data = nullptr;
  {
    Memory memory = alloc(10'000);
    data = memory.data();
    REQUIRE(memory.size() == 10'000);
    REQUIRE(memory.as<double>().size() == 1250);
    REQUIRE(reinterpret_cast<std::uintptr_t>(data) % 4096 == 0);
    REQUIRE(std::all_of(data, data + 10'000, [](std::byte b) { return b == std::byte{0}; }));
    const auto begin = runtime::find_segment(data, 10'000);
    const auto inside = runtime::find_segment(data + 77, 100);
    REQUIRE(begin);
    REQUIRE(inside);
    CHECK(inside->segment == begin->segment);
    CHECK(begin->offset == 0);
    CHECK(inside->offset == 77);
    CHECK_FALSE(runtime::find_segment(data - 1, 10));
    CHECK_FALSE(runtime::find_segment(data, 20'000));
    CHECK_FALSE(runtime::find_segment(data + 4096, ~std::size_t{0}));
    CHECK(runtime::segment_fd(begin->segment) != nullptr);
    Memory moved = std::move(memory);
    CHECK(moved.data() == data);
    CHECK(memory.data() == nullptr);
    CHECK(runtime::find_segment(data, 1));
  }
  CHECK_FALSE(runtime::find_segment(data, 1));
  CHECK(alloc(0).data() == nullptr);
  CHECK_THROWS_AS(alloc(std::size_t{1} << 60), Error);
}

TEST_CASE("a forked child that ends leaves its parent's memory alone") {
  const Memory memory = alloc(100'000);
  memory.data()[5] = std::byte{42};
  const pid_t child = ::fork();
  if (child == 0) {
    { Memory gone = std::move(const_cast<Memory&>(memory)); }
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(memory.data()[5] == std::byte{42});
}

// Messages between two ranks: what arrives, in which order, and beside which other calls.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>

#include "src/runtime/pairs.h"
#include "tests/runtime/exchange_support.h"
#include "tests/runtime/ranks.h"
#include "tutti/memory.h"

using namespace tutti;
using namespace tutti::test;
using namespace std::chrono_literals;
using Direction = Transfer::Direction;

namespace {

Config config_for(const std::string& transport, std::size_t buffer_limit = std::size_t{64} << 20) {
  Config config;
  config.transport = transport;
  config.buffer_limit = buffer_limit;
  config.timeout = 60s;
  return config;
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// Small ones; about one cache line, the first slot and the limit of lending; many slots.
const std::vector<std::size_t> kSizes{0, 1, 39, 40, 41, 1009, 4095, 16'383, 16'384, 65'528, 65'529, 131'064, 300'007};

thread_local std::size_t allocations = 0;

}  // namespace

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("all pairs of ranks exchange messages of any size at once") {
  const auto ranks = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17);
  on_threads(ranks, [&](Communicator& comm) {
    for (const std::size_t size : kSizes) {
      if (ranks > 5 && size > 1009 && size % 7 != static_cast<std::size_t>(ranks % 7)) continue;
      exchange_all_pairs(comm, {size}, size % 2 == 0, size % 3);
    }
  });
}

TEST_CASE("messages of a pair arrive in the order of its calls, whatever their sizes") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 60; ++i) sizes.push_back(kSizes[i * i % kSizes.size()] / (i % 4 == 3 ? 3 : 1));
  on_threads(
      3,
      [&](Communicator& comm) {
        for (const bool receives_first : {false, true}) exchange_all_pairs(comm, sizes, receives_first, 1);
        // One call here, many there.
        if (comm.rank() == 2) return;
        std::vector<Guarded> data;
        std::vector<Transfer> sends;
        for (std::size_t n = 0; n < sizes.size(); ++n) data.emplace_back(sizes[n]).fill(0, 1, n);
        for (std::size_t n = 0; n < sizes.size(); ++n)
          sends.push_back({Direction::send, data[n].data(), sizes[n], DataType::uint8, 1});
        if (comm.rank() == 0) return comm.exchange(sends);
        for (std::size_t n = 0; n < sizes.size(); ++n) {
          Guarded in(sizes[n]);
          comm.receive(in.data(), sizes[n], DataType::uint8, 0);
          in.check(0, 1, n);
        }
      },
      config_for(transport));
}

TEST_CASE("ranks that are processes exchange messages of any size") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto ranks = GENERATE(2, 4);
  for (const Ending& ending : in_processes(
           ranks,
           [&](Communicator& comm) -> std::string {
             for (const std::size_t size : kSizes) exchange_all_pairs(comm, {size, size / 2}, size % 2 == 0, size % 3);
             exchange_all_pairs(comm, {3'000'017});
             return "";
           },
           config_for(transport)))
    CHECK(ending.message == "");
}

TEST_CASE("memory of tutti::alloc is read where it lies") {
  constexpr std::size_t kBytes = 5'000'011;
  for (const Ending& ending : in_processes(3, [&](Communicator& comm) -> std::string {
         const Memory memory = alloc(kBytes + 8192);
         for (std::size_t round = 0; round < 3; ++round)
           for (const std::size_t bytes : {kBytes, std::size_t{16'384}, std::size_t{70'001}}) {
             const int to = (comm.rank() + 1) % 3, from = (comm.rank() + 2) % 3;
             auto* const out = reinterpret_cast<std::uint8_t*>(memory.data()) + 5 * round;
             for (std::size_t i = 0; i < bytes; ++i) out[i] = byte_of(comm.rank(), to, round, i);
             Guarded in(bytes, round);
             const Transfer both[] = {{Direction::send, out, bytes, DataType::int8, to},
                                      {Direction::receive, in.data(), bytes, DataType::int8, from}};
             comm.exchange(both);
             std::memset(out, 0, bytes);  // it is ours again
             in.check(from, comm.rank(), round);
           }
         return "";
       }))
    CHECK(ending.message == "");
}

TEST_CASE("small sends do not wait for their receives") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto size = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{1000}, std::size_t{16'000});
  on_threads(
      4,
      [&](Communicator& comm) {
        Guarded out(size), in(size);
        for (std::size_t n = 0; n < 50; ++n) {
          for (int peer = 0; peer < comm.size(); ++peer) {
            if (peer == comm.rank()) continue;
            out.fill(comm.rank(), peer, n);
            comm.send(out.data(), size, DataType::uint8, peer);
          }
          for (int peer = comm.size() - 1; peer >= 0; --peer) {
            if (peer == comm.rank()) continue;
            comm.receive(in.data(), size, DataType::uint8, peer);
            in.check(peer, comm.rank(), n);
          }
        }
        exchange_all_pairs(comm, {600'000});  // a writer has been told that it may send as much, and no more
        const int peer = comm.rank() ^ 1;
        for (std::size_t n = 50; n < 52; ++n) {
          out.fill(comm.rank(), peer, n);
          comm.send(out.data(), size, DataType::uint8, peer);
        }
        for (std::size_t n = 50; n < 52; ++n) {
          comm.receive(in.data(), size, DataType::uint8, peer);
          in.check(peer, comm.rank(), n);
        }
      },
      config_for(transport));
}

// Slot memory is so small that each algorithm clears it for the next, while messages lie in the rings of pairs.
TEST_CASE("messages outlast the clearing of slot memory") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  on_threads(
      4,
      [](Communicator& comm) {
        const int right = (comm.rank() + 1) % 4, left = (comm.rank() + 3) % 4;
        std::size_t n = 0;
        for (int pass = 0; pass < 3; ++pass)
          for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
            comm.force_algorithm(algorithm);
            Guarded out(1000), in(1000);
            out.fill(comm.rank(), right, n);
            comm.send(out.data(), 1000, DataType::uint8, right);
            for (const std::size_t count : {1ul, 500ul, 3000ul, 30'000ul}) {
              std::vector<std::int32_t> data(count, comm.rank() + 1);
              comm.all_reduce(std::span(data));
              expect(std::count(data.begin(), data.end(), 10) == static_cast<std::ptrdiff_t>(count), "sum");
              if (count != 500) continue;
              comm.receive(in.data(), 1000, DataType::uint8, left);
              in.check(left, comm.rank(), n);
              exchange_all_pairs(comm, {0, 20'011}, n % 2 == 0);
              comm.send(out.data(), 1000, DataType::uint8, right);
            }
            comm.receive(in.data(), 1000, DataType::uint8, left);
            in.check(left, comm.rank(), n++);
          }
      },
      config_for(transport, 192 << 10));
}

TEST_CASE("asynchronous exchanges and collectives run in the order of their calls") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  on_threads(
      3,
      [](Communicator& comm) {
        const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
        std::vector<std::vector<std::int32_t>> values;
        std::vector<Work> works;
        for (int i = 0; i < 20; ++i) {
          const std::size_t count = std::size_t{1} << i % 16;
          values.emplace_back(count, comm.rank() + i);
          values.emplace_back(count, -1);
        }
        for (std::size_t i = 0; i < values.size(); i += 2) {
          auto& own = values[i];
          auto& other = values[i + 1];
          works.push_back(comm.all_reduce_async(std::span(own)));
          {
            const std::vector<Transfer> both{{Direction::send, own.data(), own.size(), DataType::int32, right},
                                             {Direction::receive, other.data(), other.size(), DataType::int32, left}};
            works.push_back(comm.exchange_async(both));
          }
          if (i % 10 == 4) exchange_all_pairs(comm, {77});  // a blocking one behind them
        }
        for (Work& work : works) work.wait();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const int sum = 3 + 3 * static_cast<int>(i / 2);
          expect(std::count(values[i].begin(), values[i].end(), sum) == static_cast<std::ptrdiff_t>(values[i].size()),
                 "values of call " + std::to_string(i));
        }
      },
      config_for(transport));
}

TEST_CASE("messages to oneself meet in order, alone and among others") {
  const auto ranks = GENERATE(1, 2);
  on_threads(ranks, [&](Communicator& comm) {
    const int self = comm.rank();
    std::vector<double> a{1, 2, 3}, b{4}, c(3), d(1), e(2);
    const std::vector<Transfer> transfers{{Direction::receive, c.data(), 3, DataType::float64, self},
                                          {Direction::send, a.data(), 3, DataType::float64, self},
                                          {Direction::send, b.data(), 1, DataType::float64, self},
                                          {Direction::receive, nullptr, 0, DataType::int8, self},
                                          {Direction::receive, d.data(), 1, DataType::float64, self},
                                          {Direction::send, nullptr, 0, DataType::int8, self}};
    std::vector<Transfer> in_order(transfers);
    std::swap(in_order[3], in_order[4]);
    comm.exchange(in_order);
    expect(c == a && d == b, "copies");
    comm.exchange_async(in_order).wait();
    comm.exchange({});
    const auto refused = [&](const std::vector<Transfer>& list, const std::string& text) {
      try {
        comm.exchange(list);
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::invalid_usage, "code");
        expect(std::string(error.what()).find(text) != std::string::npos, error.what());
        return;
      }
      throw std::runtime_error("not refused: " + text);
    };
    const std::string name = "rank " + std::to_string(self) + ": ";
    refused(transfers, name + "send number 2 to itself is double x 1, but its receive expects int8 x 0");
    refused({transfers[1]}, name + "send number 1 to itself, of double x 3, has no receive");
    refused({transfers[0], transfers[1], transfers[4]},
            name + "receive number 2 from itself, of double x 1, has no send");
    refused({transfers[0], {Direction::send, a.data(), 3, DataType::int64, self}}, "is int64 x 3, but");
    comm.barrier();
  });
}

TEST_CASE("transfers that make no sense are refused by name and have no effect") {
  on_threads(2, [](Communicator& comm) {
    std::vector<float> data(10);
    const auto refused = [&](const Transfer& transfer, const std::string& text) {
      const Transfer list[] = {{Direction::send, data.data(), 1, DataType::float32, 1 - comm.rank()}, transfer};
      try {
        comm.exchange(list);
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::invalid_argument, "code");
        expect(std::string(error.what()).find("transfer 2 of 2: " + text) != std::string::npos, error.what());
        return;
      }
      throw std::runtime_error("not refused: " + text);
    };
    const auto receive = Direction::receive;
    refused({receive, data.data(), 1, DataType::float32, 2}, "the peer is 2; valid: 0 to 1");
    refused({receive, data.data(), 1, DataType::float32, -1}, "the peer is -1; valid: 0 to 1");
    refused({receive, nullptr, 1, DataType::float32, 0}, "the buffer is null but the count is 1");
    refused({receive, data.data(), ~std::size_t{0}, DataType::float32, 0},
            "the count 18446744073709551615 is too large");
    refused({receive, data.data(), 1, static_cast<DataType>(99), 0}, "the data type is 99; valid");
    refused({static_cast<Direction>(7), data.data(), 1, DataType::float32, 0}, "the direction is 7; valid");
    exchange_all_pairs(comm, {8});
  });
}

TEST_CASE("blocks of different sizes: all_to_all_v, gather_v and scatter_v") {
  const auto ranks = GENERATE(1, 2, 5);
  on_threads(ranks, [&](Communicator& comm) {
    const auto size = static_cast<std::size_t>(ranks), rank = static_cast<std::size_t>(comm.rank());
    const auto count_of = [](std::size_t from, std::size_t to) { return from * 3 + to * 2003 % 4001; };
    const auto value = [](std::size_t from, std::size_t to, std::size_t i) {
      return static_cast<std::int64_t>(from * 1'000'000 + to * 10'000 + i);
    };
    std::vector<std::size_t> in_counts, in_offsets, out_counts, out_offsets;
    std::vector<std::int64_t> input, expected;
    for (std::size_t peer = 0; peer < size; ++peer) {
      in_counts.push_back(count_of(rank, peer));
      in_offsets.push_back(input.size() + 1);  // a gap before each block
      input.push_back(-1);
      for (std::size_t i = 0; i < in_counts.back(); ++i) input.push_back(value(rank, peer, i));
      out_counts.push_back(count_of(peer, rank));
      out_offsets.push_back(expected.size() + 1);
      expected.push_back(-2);
      for (std::size_t i = 0; i < out_counts.back(); ++i) expected.push_back(value(peer, rank, i));
    }
    std::vector<std::int64_t> output(expected.size(), -2);
    comm.all_to_all_v(input.data(), in_counts, in_offsets, output.data(), out_counts, out_offsets, DataType::int64);
    expect(output == expected, "all_to_all_v");

    for (int root = 0; root < ranks; ++root) {
      const bool is_root = comm.rank() == root;
      const auto to_root = static_cast<std::size_t>(root);
      std::vector<std::int64_t> gathered(expected.size(), -2);
      comm.gather_v(input.data() + in_offsets[to_root], in_counts[to_root], is_root ? gathered.data() : nullptr,
                    out_counts, out_offsets, DataType::int64, root);
      expect(gathered == (is_root ? expected : std::vector<std::int64_t>(expected.size(), -2)), "gather_v");
      std::vector<std::int64_t> block(count_of(to_root, rank), -3), wanted;
      for (std::size_t i = 0; i < block.size(); ++i) wanted.push_back(value(to_root, rank, i));
      comm.scatter_v(is_root ? input.data() : nullptr, in_counts, in_offsets, block.data(), block.size(),
                     DataType::int64, root);
      expect(block == wanted, "scatter_v");
    }
    const auto refused = [&](const std::function<void()>& call, const std::string& text) {
      try {
        call();
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::invalid_argument, "code");
        return expect(std::string(error.what()).find(text) != std::string::npos, error.what());
      }
      throw std::runtime_error("not refused: " + text);
    };
    refused([&] { comm.gather_v(nullptr, 0, nullptr, {}, {}, DataType::int8, ranks); }, "the root is");
    refused([&] { comm.scatter_v(nullptr, {}, {}, nullptr, 0, static_cast<DataType>(99), 0); }, "the data type is 99");
    refused([&] { comm.all_to_all_v(nullptr, {}, in_offsets, nullptr, out_counts, out_offsets, DataType::int8); },
            "there are 0 input counts; valid: one per rank, " + std::to_string(ranks));
    comm.barrier();
  });
}

TEST_CASE("pairs of many ranks share a small buffer limit, and one that is too small is refused") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  on_threads(
      33,
      [](Communicator& comm) {
        exchange_all_pairs(comm, {0, 41, 20'000});
        std::vector<std::int32_t> data(5000, 1);
        comm.all_reduce(std::span(data));
        expect(std::count(data.begin(), data.end(), 33) == 5000, "sum");
        exchange_all_pairs(comm, {100});
      },
      config_for(transport, std::size_t{1} << 20));
  on_threads(
      4,
      [](Communicator& comm) {
        try {
          comm.send(nullptr, 0, DataType::int8, (comm.rank() + 1) % 4);
          throw std::runtime_error("not refused");
        } catch (const Error& error) {
          expect(error.code() == ErrorCode::invalid_argument, "code");
          const std::string text = error.what();
          expect(text.find("TUTTI_BUFFER_LIMIT is 65536 bytes") != std::string::npos, text);
          expect(text.find("at least 96 KiB") != std::string::npos, text);
        }
        std::vector<std::int32_t> data(50, 1);
        comm.all_reduce(std::span(data));
        expect(std::count(data.begin(), data.end(), 4) == 50, "sum");
      },
      config_for(transport, 64 << 10));
}

TEST_CASE("the rings of pairs keep to an eighth of the limit") {
  using namespace tutti::runtime;
  for (int ranks = 2; ranks < 3000; ranks += ranks < 70 ? 1 : 97)
    for (std::size_t limit = 1000; limit <= std::size_t{1} << 30; limit += limit / 3) {
      const auto geometry = pair_geometry(ranks, limit);
      const auto peers = static_cast<std::size_t>(ranks - 1);
      INFO(ranks << " ranks, limit " << limit);
      REQUIRE(pair_memory(ranks, limit) <= limit / 8);
      REQUIRE(geometry.has_value() == (limit / 8 / peers >= 4096));
      if (!geometry) continue;
      REQUIRE(pair_memory(ranks, limit) == peers * arena_bytes(*geometry));
      REQUIRE(geometry->slots >= 2);
      REQUIRE(geometry->slots <= 4);
      REQUIRE(geometry->slot_bytes >= 1920);
      REQUIRE(geometry->slot_bytes <= 65536);
      REQUIRE(geometry->slot_bytes % 64 == 0);
    }
  CHECK_FALSE(pair_geometry(1, 1 << 20));
  CHECK(pair_geometry(8, 64 << 20) == RingGeometry{1, 4, 65536});
}

TEST_CASE("a small message that is sent again takes no memory") {
  on_threads(2, [](Communicator& comm) {
    std::int64_t value = 0;
    const auto ping_pong = [&](int times) {
      for (int i = 0; i < times; ++i) {
        if (comm.rank() == 0) comm.send(&value, 1, DataType::int64, 1);
        comm.receive(&value, 1, DataType::int64, 1 - comm.rank());
        ++value;
        if (comm.rank() == 1) comm.send(&value, 1, DataType::int64, 0);
      }
    };
    // Whoever waits for long enough writes a report: where that may be, some of the rounds go without.
    std::size_t fewest = ~std::size_t{0};
    for (int round = 0; round < 20; ++round) {
      const std::size_t before = allocations;
      ping_pong(100);
      fewest = std::min(fewest, allocations - before);
    }
    expect(fewest == 0, std::to_string(fewest) + " allocations");
    expect(value == 4000 - (comm.rank() == 1 ? 1 : 0), "value " + std::to_string(value));
  });
}

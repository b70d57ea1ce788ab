// Every collective through the public interface, in all the ways in which its buffers may lie: what each rank must hold
// is worked out here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "tests/runtime/collectives_case.h"
#include "tests/runtime/ranks.h"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr Collective kWithData[] = {Collective::all_reduce,     Collective::broadcast,  Collective::all_gather,
                                    Collective::reduce,         Collective::all_to_all, Collective::gather,
                                    Collective::reduce_scatter, Collective::scatter};
constexpr std::byte kGuardByte{0x5a};
constexpr std::size_t kGuard = 64;

// A throwing check: Catch's own macros belong to one thread.
void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// `blocks` blocks between guards.
struct Room {
  Room(std::size_t blocks, const Case& c)
      : block(c.count * size_of(c.type)),
        bytes(blocks * block + 2 * kGuard + 16, kGuardByte),
        data(bytes.data() + kGuard + c.misalign) {}
  std::byte* at(std::size_t index) { return data + index * block; }

  std::size_t block;
  std::vector<std::byte> bytes;
  std::byte* data;
};

using Number = std::function<double(std::size_t block, std::size_t i)>;

std::vector<std::byte> bytes_of(const Case& c, std::size_t blocks, const Number& number_at) {
  const std::size_t element = size_of(c.type);
  std::vector<std::byte> bytes(blocks * c.count * element);
  for (std::size_t block = 0, at = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < c.count; ++i, at += element) {
      const std::uint64_t bits = bits_of(number_at(block, i), c.type);
      std::memcpy(bytes.data() + at, &bits, element);
    }
  return bytes;
}

void call(Communicator& comm, const Case& c, const void* input, void* output) {
  if (c.op == ReduceOp::premul_sum)
    return comm.run({c.collective, input, output, c.count, c.type, c.op, c.root, factor_at(c, comm.rank())});
  switch (c.collective) {
    case Collective::reduce: return comm.reduce(input, output, c.count, c.type, c.op, c.root);
    case Collective::reduce_scatter: return comm.reduce_scatter(input, output, c.count, c.type, c.op);
    case Collective::all_to_all: return comm.all_to_all(input, output, c.count, c.type);
    case Collective::gather: return comm.gather(input, output, c.count, c.type, c.root);
    case Collective::scatter: return comm.scatter(input, output, c.count, c.type, c.root);
    default: return comm.start({c.collective, input, output, c.count, c.type, c.op, c.root}).wait();
  }
}

void check(Communicator& comm, const Case& c) {
  const int ranks = comm.size(), rank = comm.rank();
  const std::size_t ins = input_blocks(c, ranks, rank), outs = output_blocks(c, ranks, rank);
  const bool in_place = c.in_place && ins > 0 && outs > 0 && c.collective != Collective::all_to_all;
  const Overlay overlay = in_place ? overlay_of(c, rank) : Overlay{};
  Room first(in_place ? std::max(ins, outs) : ins, c), second(in_place ? 0 : outs, c);
  std::byte* const input = first.at(overlay.input);
  std::byte* const output = (in_place ? first : second).at(overlay.output);
  const auto given = bytes_of(c, ins, [&](std::size_t b, std::size_t i) { return number(c, rank, b, i); });
  const auto wanted =
      bytes_of(c, outs, [&](std::size_t b, std::size_t i) { return output_number(c, ranks, rank, b, i); });
  if (!given.empty()) std::memcpy(input, given.data(), given.size());
  // All bytes that must be there afterwards. What an in-place call leaves in the rest of its input is its own affair.
  std::vector<std::byte> after_first = first.bytes, after_second = second.bytes;
  const auto offset = static_cast<std::size_t>(output - (in_place ? first : second).bytes.data());
  if (!wanted.empty())
    std::memcpy((in_place ? after_first : after_second).data() + offset, wanted.data(), wanted.size());

  call(comm, c, ins == 0 && c.null_where_unused ? nullptr : input, outs == 0 && c.null_where_unused ? nullptr : output);
  expect(first.bytes == after_first, in_words(c, rank) + (in_place ? ": the buffer" : ": the input or its guards"));
  expect(second.bytes == after_second, in_words(c, rank) + ": the output or its guards");
}

// Every algorithm, with roots and placements that change from call to call.
void check_all(Communicator& comm, const std::vector<std::size_t>& counts, DataType type) {
  int variant = 0;
  for (const Collective collective : kWithData)
    for (const std::string& algorithm : comm.algorithms(collective)) {
      comm.force_algorithm(algorithm);
      for (const std::size_t count : counts)
        for (const bool in_place : {false, true}) {
          Case c{collective, type, ReduceOp::sum, count, variant % comm.size(), in_place};
          c.null_where_unused = variant % 3 != 0;
          c.misalign = static_cast<std::size_t>(variant % 2) * 3;
          check(comm, c);
          ++variant;
        }
    }
  comm.force_algorithm("");
}

Config over(const std::string& transport) {
  Config config;
  config.transport = transport;
  return config;
}

}  // namespace

TEST_CASE("every collective and algorithm is exact for 1 to 17 ranks, in place and out of place") {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) { check_all(comm, {0, 1, 13, 1009}, DataType::int32); });
  }
}

TEST_CASE("large calls take several rounds and lent and placed messages") {
  for (const int ranks : {2, 3, 5}) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) { check_all(comm, {30'011, 150'001}, DataType::int32); });
  }
}

TEST_CASE("every root of a rooted collective, with and without null buffers") {
  for (const int ranks : {2, 3, 6, 9})
    on_threads(ranks, [](Communicator& comm) {
      for (const Collective collective :
           {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
        for (const std::string& algorithm : comm.algorithms(collective)) {
          comm.force_algorithm(algorithm);
          for (int root = 0; root < comm.size(); ++root)
            for (const bool null : {false, true})
              check(comm, {collective, DataType::float64, ReduceOp::max, 257, root, root % 2 == 0, null, 5});
        }
    });
}

TEST_CASE("every type and op of the collectives that reduce, and every type of the others") {
  on_threads(4, [](Communicator& comm) {
    for (int type = 0; type < kDataTypes; ++type)
      for (const Collective collective : kWithData)
        for (const std::string& algorithm : comm.algorithms(collective)) {
          comm.force_algorithm(algorithm);
          for (int op = 0; op < (reduces(collective) ? kReduceOps : 1); ++op)
            for (const bool in_place : {false, true})
              if (can_reduce(static_cast<DataType>(type), static_cast<ReduceOp>(op)))
                check(comm, {collective, static_cast<DataType>(type), static_cast<ReduceOp>(op), 331, 2, in_place});
        }
  });
}

TEST_CASE("averages and factors of lent messages are applied once") {
  on_threads(4, [](Communicator& comm) {
    for (const Collective collective : {Collective::reduce, Collective::reduce_scatter})
      for (const std::string& algorithm : comm.algorithms(collective)) {
        comm.force_algorithm(algorithm);
        for (const DataType type : {DataType::float16, DataType::float32, DataType::int32})
          for (const ReduceOp op : {ReduceOp::avg, ReduceOp::premul_sum})
            for (const bool in_place : {false, true}) check(comm, {collective, type, op, 50'021, 3, in_place});
      }
  });
}

TEST_CASE("calls of all kinds in flight at once end as if one after another") {
  on_threads(5, [](Communicator& comm) {
    const int ranks = comm.size(), rank = comm.rank();
    struct Flight {
      Case c;
      std::vector<std::byte> input, output, wanted;
      Work work;
    };
    std::vector<Flight> flights;
    for (int i = 0; i < 48; ++i) {
      Flight flight;
      flight.c = {kWithData[i % 8], DataType::int64, ReduceOp::sum, static_cast<std::size_t>(i * i * 7), i % ranks};
      const Case& c = flight.c;
      const std::size_t ins = input_blocks(c, ranks, rank), outs = output_blocks(c, ranks, rank);
      flight.input = bytes_of(c, ins, [&](std::size_t b, std::size_t k) { return number(c, rank, b, k); });
      flight.wanted =
          bytes_of(c, outs, [&](std::size_t b, std::size_t k) { return output_number(c, ranks, rank, b, k); });
      flight.output.assign(flight.wanted.size(), kGuardByte);
      flights.push_back(std::move(flight));
    }
    for (Flight& f : flights)
      f.work = comm.start({f.c.collective, f.input.data(), f.output.data(), f.c.count, f.c.type, f.c.op, f.c.root});
    comm.start({.collective = Collective::barrier}).wait();
    for (Flight& f : flights) {
      expect(f.work.test(), "complete before a later barrier: " + in_words(f.c, rank));
      f.work.wait();
      expect(f.output == f.wanted, in_words(f.c, rank));
    }
  });
}

TEST_CASE("ranks as processes, over shared memory and over TCP") {
  for (const char* transport : {"shm", "tcp"})
    for (const int ranks : {2, 5}) {
      const auto body = [](Communicator& comm) {
        check_all(comm, {1, 50'021}, DataType::float32);
        return std::string();
      };
      for (const auto& ending : in_processes(ranks, body, over(transport))) {
        INFO(transport << ", " << ranks << " ranks: " << ending.message);
        CHECK(ending.status == 0);
        CHECK(ending.message.empty());
      }
    }
}

TEST_CASE("a small buffer limit suffices for every collective") {
  Config config;
  config.buffer_limit = 128 << 10;
  on_threads(
      4,
      [](Communicator& comm) {
        check_all(comm, {1, 5000, 70'001}, DataType::int32);
      },
      config);
}

TEST_CASE("calls that make no sense are refused by name, have no effect, and leave nulls alone that nobody needs") {
  on_threads(3, [](Communicator& comm) {
    std::vector<float> data(300, 1.0f), other(300, 2.0f);
    float *const a = data.data(), *const b = other.data();
    const int rank = comm.rank();
    const auto refused = [&](const CollectiveCall& bad, const std::string& text) {
      try {
        comm.start(bad).wait();
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::invalid_argument, "code");
        expect(std::string(error.what()).find(text) != std::string::npos, std::string("text: ") + error.what());
        return;
      }
      throw std::runtime_error("not refused: " + text);
    };
    for (const Collective c : kWithData) {
      const CollectiveCall good{c, a, b, 10, DataType::float32, ReduceOp::sum, rank};
      CollectiveCall bad = good;
      bad.input = nullptr;
      refused(bad, "input is null but the count is 10");  // this rank is the root
      bad = good;
      bad.output = nullptr;
      refused(bad, "output is null but the count is 10");
      bad = good;
      bad.output = a + 3;  // no block's border
      refused(bad, "input and output of " + std::string(name_of(c)) + " overlap");
      bad = good;
      bad.type = static_cast<DataType>(77);
      refused(bad, "the data type is 77");
      bad = good;
      bad.count = ~std::size_t{0} / 2;
      refused(bad, "is too large");
      if (!reduces(c)) continue;
      bad = good;
      bad.op = static_cast<ReduceOp>(9);
      refused(bad, "the reduction op is 9");
    }
    for (const Collective c : {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
      for (const int root : {-1, 3})
        refused({c, a, b, 10, DataType::float32, ReduceOp::sum, root},
                "the root is " + std::to_string(root) + "; valid: 0 to 2");
    refused({static_cast<Collective>(9), a, b, 10}, "the collective is 9; valid: 0 to 8");
    refused({Collective::all_to_all, a, a, 10}, "it has no in-place form");
    // What the collective does not use is not looked at, and need not be equal.
    comm.start({Collective::all_to_all, a, b, 10, DataType::float32, static_cast<ReduceOp>(rank + 50), rank - 7})
        .wait();
    expect(b[0] == 1.0f && b[29] == 1.0f && b[30] == 2.0f, "the communicator still works");
    for (const Collective c : kWithData) comm.start({c, nullptr, nullptr, 0, DataType::float32}).wait();
  });
}

TEST_CASE("ranks that name different roots or counts get an error that names both calls") {
  struct Mismatch {
    CollectiveCall ours, theirs;  // of rank 0, and of the others
    const char* texts[2];
  };
  std::vector<float> in(4000, 1.0f);
  const auto call_of = [&](Collective c, std::size_t count, int root) {
    return CollectiveCall{c, in.data(), nullptr, count, DataType::float32, ReduceOp::sum, root};
  };
  const Mismatch mismatches[] = {
      {call_of(Collective::reduce, 8, 0), call_of(Collective::reduce, 8, 1), {"float x 8 sum root 0", "root 1"}},
      {call_of(Collective::gather, 8, 1), call_of(Collective::gather, 8, 2), {"gather #1 float x 8 root 1", "root 2"}},
      {call_of(Collective::scatter, 8, 1),
       call_of(Collective::scatter, 8, 0),
       {"scatter #1 float x 8 root 1", "root 0"}},
      {call_of(Collective::reduce_scatter, 8, 0), call_of(Collective::reduce_scatter, 9, 0), {"x 8 sum", "x 9 sum"}},
      {call_of(Collective::all_to_all, 700, 0), call_of(Collective::all_to_all, 7, 0), {"x 700", "x 7"}},
      {call_of(Collective::all_to_all, 8, 0), call_of(Collective::gather, 8, 0), {"all_to_all #1", "gather #1"}},
  };
  for (const Mismatch& mismatch : mismatches) {
    Config config;
    config.timeout = std::chrono::seconds(20);
    on_threads(
        3,
        [&](Communicator& comm) {
          std::vector<float> out(4000);
          CollectiveCall call = comm.rank() == 0 ? mismatch.ours : mismatch.theirs;
          call.output = out.data();
          try {
            comm.start(call).wait();
            comm.barrier();  // a rank that only sends may learn of it here
          } catch (const Error& error) {
            const std::string text = error.what();
            expect(text.find("calls do not match") != std::string::npos, text);
            for (const char* part : mismatch.texts) expect(text.find(part) != std::string::npos, text);
            return;
          }
          throw std::runtime_error("no error at rank " + std::to_string(comm.rank()));
        },
        config);
  }
}

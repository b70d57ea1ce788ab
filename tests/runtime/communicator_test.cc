// Collectives through the public interface, ranks as threads: breadth. Expected values are worked out here.
#include "tutti/communicator.h"

#include <sys/mman.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/runtime/ranks.h"

using namespace tutti;
using tutti::test::on_threads;

namespace {

// A throwing check: Catch's own macros belong to one thread.
void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// Integers small enough that every sum and product is exact whatever the order; different at every rank and index.
template <class T>
T value(int rank, std::size_t index) {
  return static_cast<T>(1 + (static_cast<std::size_t>(rank) * 7 + index * 3) % 5);
}

// What a rank multiplies its input by where the op is premul_sum.
template <class T>
T factor(int rank) {
  return static_cast<T>(rank % 4 + 2);
}

template <class T>
T expected(ReduceOp op, int ranks, std::size_t index) {
  T result{};
  for (int rank = 0; rank < ranks; ++rank) {
    T next = value<T>(rank, index);
    if (op == ReduceOp::premul_sum) next = static_cast<T>(next * factor<T>(rank));
    if (rank == 0) {
      result = next;
      continue;
    }
    if constexpr (std::is_integral_v<T>) {
      if (op == ReduceOp::bit_and) result = static_cast<T>(result & next);
      if (op == ReduceOp::bit_or) result = static_cast<T>(result | next);
      if (op == ReduceOp::bit_xor) result = static_cast<T>(result ^ next);
    }
    switch (op) {
      case ReduceOp::bit_and:
      case ReduceOp::bit_or:
      case ReduceOp::bit_xor: break;
      case ReduceOp::prod: result = static_cast<T>(result * next); break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::min: result = std::min(result, next); break;
      default: result = static_cast<T>(result + next);
    }
  }
  return op == ReduceOp::avg ? static_cast<T>(result / static_cast<T>(ranks)) : result;
}

template <class T>
void check_all_reduce(Communicator& comm, std::size_t count, ReduceOp op, bool in_place, std::size_t misalign) {
  const std::size_t guard = 64;
  std::vector<std::byte> in(count * sizeof(T) + 2 * guard + 16, std::byte{0x5a}), out = in;
  std::byte* const input = in.data() + guard + misalign;
  std::byte* const output = in_place ? input : out.data() + guard + misalign;
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value<T>(comm.rank(), i);
  if (count > 0) std::memcpy(input, values.data(), count * sizeof(T));
  if (op == ReduceOp::premul_sum)
    comm.all_reduce(input, output, count, data_type_of<T>(), factor<T>(comm.rank()));
  else
    comm.all_reduce(input, output, count, data_type_of<T>(), op);
  std::vector<T> got(count);
  if (count > 0) std::memcpy(got.data(), output, count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i)
    expect(got[i] == expected<T>(op, comm.size(), i),
           "element " + std::to_string(i) + " of " + std::to_string(count) + " is " + std::to_string(double(got[i])));
  const std::vector<std::byte>& written = in_place ? in : out;
  const std::size_t begin = static_cast<std::size_t>(output - written.data()), end = begin + count * sizeof(T);
  for (std::size_t i = 0; i < written.size(); ++i)
    if (i < begin || i >= end) expect(written[i] == std::byte{0x5a}, "a guard byte was changed");
  if (!in_place && count > 0)
    expect(std::memcmp(input, values.data(), count * sizeof(T)) == 0, "the input was changed");
}

}  // namespace

TEST_CASE("who only tests hears of the deadline and of an abort, and failure() of what ended it") {
  const bool aborts = GENERATE(false, true);
  Config config;
  config.timeout = std::chrono::milliseconds(aborts ? 20'000 : 300);
  std::atomic<bool> over{false};
  on_threads(
      2,
      [&](Communicator& comm) {
        comm.barrier();
        if (comm.failure()) throw std::runtime_error("a failure before anything went wrong");
        if (comm.rank() == 1) {
          if (aborts) comm.abort("enough");
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        int one = 1;
        Work work = comm.all_reduce_async(std::span(&one, 1));
        const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!work.test() && std::chrono::steady_clock::now() < patience)
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        const bool done = work.test();
        over = true;
        if (!done) throw std::runtime_error("it still waits");
        const auto ended = comm.failure();
        if (!ended || ended->code() != (aborts ? ErrorCode::aborted : ErrorCode::timeout))
          throw std::runtime_error(ended ? ended->what() : "no failure");
      },
      config);
}

TEST_CASE("all_reduce is exact for every algorithm, rank count, count and placement") {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17}) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) {
      std::size_t variant = 0;
      for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
        comm.force_algorithm(algorithm);
        for (const std::size_t count : {0ul, 1ul, 2ul, 3ul, 16ul, 97ul, 1009ul, 20011ul}) {
          const bool in_place = variant % 2 == 1;
          const std::size_t misalign = variant % 3;
          check_all_reduce<float>(comm, count, static_cast<ReduceOp>(variant % 6), in_place, misalign);
          check_all_reduce<std::int32_t>(comm, count, static_cast<ReduceOp>((variant + 1) % 9), !in_place, misalign);
          ++variant;
        }
      }
    });
  }
}

TEST_CASE("every type with a C++ counterpart reduces by every op") {
  on_threads(3, [](Communicator& comm) {
    for (int op = 0; op < kReduceOps; ++op)
      for (const std::size_t count : {1ul, 63ul, 4099ul}) {
        check_all_reduce<std::int8_t>(comm, count, static_cast<ReduceOp>(op), false, 1);
        check_all_reduce<std::uint8_t>(comm, count, static_cast<ReduceOp>(op), true, 1);
        check_all_reduce<std::int16_t>(comm, count, static_cast<ReduceOp>(op), true, 2);
        check_all_reduce<std::uint16_t>(comm, count, static_cast<ReduceOp>(op), false, 1);
        check_all_reduce<std::uint32_t>(comm, count, static_cast<ReduceOp>(op), false, 0);
        check_all_reduce<std::int64_t>(comm, count, static_cast<ReduceOp>(op), true, 3);
        check_all_reduce<std::uint64_t>(comm, count, static_cast<ReduceOp>(op), false, 0);
        if (can_reduce(DataType::float64, static_cast<ReduceOp>(op)))
          check_all_reduce<double>(comm, count, static_cast<ReduceOp>(op), true, 5);
      }
  });
}

TEST_CASE("results have the same bits on every rank, whatever the rounding") {
  for (const int ranks : {2, 3, 5, 8}) {
    on_threads(ranks, [](Communicator& comm) {
      for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
        comm.force_algorithm(algorithm);
        for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float8_e4m3})
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min}) {
            const std::size_t count = 3001, bytes = count * size_of(type);
            std::vector<std::uint8_t> data(bytes);  // every bit pattern: rounding, infinities, NaNs, -0
            for (std::size_t i = 0; i < bytes; ++i)
              data[i] = static_cast<std::uint8_t>((i * 2654435761u >> 7) ^ static_cast<unsigned>(comm.rank() * 37));
            comm.all_reduce(data.data(), data.data(), count, type, op);
            std::vector<std::uint8_t> all(bytes * static_cast<std::size_t>(comm.size()));
            comm.all_gather(data.data(), all.data(), bytes, DataType::uint8);
            for (int rank = 0; rank < comm.size(); ++rank)
              expect(std::memcmp(all.data() + static_cast<std::size_t>(rank) * bytes, data.data(), bytes) == 0,
                     algorithm + " " + std::string(name_of(type)) + " " + std::string(name_of(op)) +
                         " differs on rank " + std::to_string(rank));
          }
      }
    });
  }
}

TEST_CASE("neither reads nor writes leave the buffers") {
  on_threads(3, [](Communicator& comm) {
    const std::size_t page = 4096;
    const auto fenced = [&] {
      auto* base = static_cast<std::byte*>(
          ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ::mprotect(base, page, PROT_NONE);
      ::mprotect(base + 2 * page, page, PROT_NONE);
      return base + page;
    };
    std::byte *in = fenced(), *out = fenced();
    for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
      comm.force_algorithm(algorithm);
      for (std::size_t count = 1; count <= 33; ++count)
        for (const DataType type : {DataType::int8, DataType::float16}) {
          const std::size_t bytes = count * size_of(type);
          comm.all_reduce(in, out, count, type);                                // at the start of the page
          comm.all_reduce(in + page - bytes, out + page - bytes, count, type);  // at its end
        }
    }
    ::munmap(in - page, 3 * page);
    ::munmap(out - page, 3 * page);
  });
}

TEST_CASE("broadcast, all_gather and barrier") {
  for (const int ranks : {1, 2, 3, 6, 9}) {
    on_threads(ranks, [](Communicator& comm) {
      for (const std::string& algorithm : comm.algorithms(Collective::broadcast)) {
        comm.force_algorithm(algorithm);
        for (int root = 0; root < comm.size(); ++root)
          for (const std::size_t count : {0ul, 1ul, 1000ul, 70001ul}) {
            std::vector<std::int32_t> data(count, comm.rank() == root ? 0 : -1);
            if (comm.rank() == root) std::iota(data.begin(), data.end(), root * 1000);
            comm.broadcast(std::span(data), root);
            for (std::size_t i = 0; i < count; ++i) expect(data[i] == root * 1000 + static_cast<int>(i), "broadcast");
          }
      }
      for (const std::string& algorithm : comm.algorithms(Collective::all_gather)) {
        comm.force_algorithm(algorithm);
        for (const std::size_t count : {0ul, 1ul, 17ul, 40013ul}) {
          const auto ranks_here = static_cast<std::size_t>(comm.size());
          std::vector<std::int64_t> all(count * ranks_here, -1);
          std::int64_t* own = all.data() + count * static_cast<std::size_t>(comm.rank());
          for (std::size_t i = 0; i < count; ++i) own[i] = comm.rank() * 100000 + static_cast<std::int64_t>(i);
          comm.all_gather(own, all.data(), count, DataType::int64);
          for (std::size_t r = 0; r < ranks_here; ++r)
            for (std::size_t i = 0; i < count; ++i)
              expect(all[r * count + i] == static_cast<std::int64_t>(r * 100000 + i), "all_gather");
        }
      }
      comm.force_algorithm("");
      for (int i = 0; i < 100; ++i) comm.barrier();
    });
  }
}

TEST_CASE("asynchronous calls complete in order, overlap, and mix with blocking ones") {
  on_threads(4, [](Communicator& comm) {
    std::vector<std::vector<float>> data;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i)
      data.emplace_back(static_cast<std::size_t>(1) << (i % 18), static_cast<float>(comm.rank() + i));
    for (auto& d : data) works.push_back(comm.all_reduce_async(std::span(d)));
    float last = static_cast<float>(comm.rank());
    comm.all_reduce(std::span(&last, 1));
    expect(last == 6, "the blocking call");
    expect(works.back().test(), "an earlier asynchronous call is complete before a later blocking one");
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i].wait();
      for (const float x : data[i]) expect(x == static_cast<float>(6 + 4 * i), "asynchronous sum " + std::to_string(i));
    }
    Work dropped = comm.all_reduce_async(std::span(data[0]));  // its destructor waits
  });
}

TEST_CASE("a small buffer limit is kept to by using slot memory anew") {
  Config config;
  config.buffer_limit = 192 << 10;
  on_threads(
      4,
      [](Communicator& comm) {
        for (int pass = 0; pass < 3; ++pass)
          for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
            comm.force_algorithm(algorithm);
            for (const std::size_t count : {1ul, 500ul, 3000ul, 30000ul, 100000ul})
              check_all_reduce<float>(comm, count, ReduceOp::sum, false, 0);
          }
      },
      config);
}

TEST_CASE("calls that make no sense are refused by name and have no effect") {
  on_threads(2, [](Communicator& comm) {
    std::vector<float> data(100, 1.0f);
    const auto refused = [&](const std::function<void()>& call, const std::string& text) {
      try {
        call();
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::invalid_argument, "code");
        expect(std::string(error.what()).find(text) != std::string::npos, std::string("text: ") + error.what());
        return;
      }
      throw std::runtime_error("not refused: " + text);
    };
    refused([&] { comm.all_reduce(nullptr, data.data(), 10, DataType::float32); }, "input is null");
    refused([&] { comm.all_reduce(data.data(), nullptr, 10, DataType::float32); }, "output is null");
    refused([&] { comm.all_reduce(data.data(), data.data() + 5, 10, DataType::float32); }, "overlap");
    refused([&] { comm.all_reduce(data.data(), data.data(), 10, static_cast<DataType>(77)); }, "data type is 77");
    refused([&] { comm.all_reduce(data.data(), data.data(), 10, DataType::int8, static_cast<ReduceOp>(99)); },
            "op is 99");
    refused([&] { comm.all_reduce(data.data(), data.data(), ~std::size_t{0} / 2, DataType::float32); }, "too large");
    refused([&] { comm.broadcast(std::span(data), 2); }, "root is 2; valid: 0 to 1");
    refused([&] { comm.force_algorithm("rnig"); }, "rnig");
    comm.all_reduce(nullptr, nullptr, 0, DataType::float32);
    comm.all_reduce(std::span(data));
    expect(data[0] == 2.0f, "the communicator still works");
  });
}

TEST_CASE("what was moved from says so, and can be assigned to and destroyed") {
  std::vector<Communicator> worlds = Communicator::connect_threads(2);
  std::vector<std::int32_t> data(3, 1), all(6);
  const auto* input = data.data();
  Communicator first = std::move(worlds[0]), second = std::move(worlds[1]);
  Communicator& gone = worlds[0];
  const std::vector<std::pair<const char*, std::function<void()>>> uses{
      {"rank", [&] { gone.rank(); }},
      {"size", [&] { gone.size(); }},
      {"local_rank", [&] { gone.local_rank(); }},
      {"local_size", [&] { gone.local_size(); }},
      {"all_reduce", [&] { gone.all_reduce(std::span(data)); }},
      {"all_reduce of null", [&] { gone.all_reduce(nullptr, nullptr, 3, DataType::float32); }},
      {"all_reduce_async", [&] { gone.all_reduce_async(std::span(data)); }},
      {"broadcast", [&] { gone.broadcast(std::span(data), 0); }},
      {"all_gather", [&] { gone.all_gather(input, all.data(), 3, DataType::int32); }},
      {"barrier", [&] { gone.barrier(); }},
      {"abort", [&] { gone.abort("test"); }},
      {"explain", [&] { gone.explain(Collective::all_reduce, 3, DataType::int32); }},
      {"algorithms", [&] { gone.algorithms(Collective::all_reduce); }},
      {"force_algorithm", [&] { gone.force_algorithm("ring"); }},
  };
  for (const auto& [name, use] : uses) {
    INFO(name);
    try {
      use();
      FAIL_CHECK("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_usage);
      CHECK_THAT(error.what(), Catch::Contains("Communicator") && Catch::Contains("moved from"));
    }
  }
  gone = std::move(first);
  CHECK(gone.rank() == 0);

  Work none;
  Work work = gone.all_reduce_async(std::span(data));
  Work kept = std::move(work);
  second.all_reduce(all.data(), all.data(), 3, DataType::int32);
  for (Work* empty : {&none, &work}) {
    CHECK_THROWS_WITH(empty->wait(), Catch::Contains("Work") && Catch::Contains("moved from"));
    CHECK_THROWS_WITH(empty->test(), Catch::Contains("Work") && Catch::Contains("moved from"));
  }
  kept.wait();
  CHECK(kept.test());
  kept.wait();  // again
  none = std::move(kept);
  none.wait();
  CHECK(data == std::vector<std::int32_t>(3, 1));
}

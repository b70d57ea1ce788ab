// Reductions beyond sum, prod, min, max and avg through the public interface, ranks as threads.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/runtime/ranks.h"

using namespace tutti;
using tutti::test::on_threads;

namespace {

// A throwing check: Catch's own macros belong to one thread.
void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

std::uint64_t hash(std::uint64_t x) {
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
  return x ^ x >> 32;
}

// Every bit of a rank's element, and of its factor, matters.
std::uint64_t word(int rank, std::size_t index) { return hash(static_cast<std::uint64_t>(rank) << 40 | index); }
std::uint64_t factor(int rank) { return hash(~static_cast<std::uint64_t>(rank)); }

template <class T>
void check_integers(Communicator& comm, std::size_t count, bool in_place, const std::string& what) {
  std::vector<T> input(count), output(count);
  for (std::size_t i = 0; i < count; ++i) input[i] = static_cast<T>(word(comm.rank(), i));
  T* const result = in_place ? input.data() : output.data();
  comm.all_reduce(input.data(), result, count, data_type_of<T>(), static_cast<T>(factor(comm.rank())));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += word(rank, i) * factor(rank);
    expect(result[i] == static_cast<T>(sum), what + ": element " + std::to_string(i));
  }
}

// Bytes of every pattern, as floats: roundings, infinities, NaNs. All ranks must hold the same bits.
void check_equal_bits(Communicator& comm, DataType type, std::size_t count, const std::string& what) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::uint8_t> data(bytes), all(bytes * static_cast<std::size_t>(comm.size()));
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(word(comm.rank(), i));
  const double number = 1.0 / (3 + comm.rank());
  comm.all_reduce(data.data(), data.data(), count, type,
                  type == DataType::float64 ? Factor(number) : Factor(static_cast<float>(number)));
  comm.all_gather(data.data(), all.data(), bytes, DataType::uint8);
  for (std::size_t rank = 0; rank < all.size() / bytes; ++rank)
    expect(std::memcmp(all.data() + rank * bytes, data.data(), bytes) == 0,
           what + " differs on rank " + std::to_string(rank));
}

// What is thrown by `call` must be a refusal that says all of `texts`.
template <class Call>
void refused(Call call, const std::vector<std::string>& texts) {
  try {
    call();
  } catch (const Error& error) {
    expect(error.code() == ErrorCode::invalid_argument, "code");
    for (const std::string& text : texts)
      expect(std::string(error.what()).find(text) != std::string::npos, "'" + text + "' in: " + error.what());
    return;
  }
  throw std::runtime_error("not refused: " + texts.front());
}

}  // namespace

TEST_CASE("premul_sum applies every rank's own factor: all algorithms, 1 to 9 ranks, copied and lent") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) {
      bool in_place = false;
      for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
        comm.force_algorithm(algorithm);
        for (const std::size_t count : {0ul, 1ul, 7ul, 1009ul, 80'021ul}) {
          const std::string what = algorithm + ", count " + std::to_string(count);
          check_integers<std::int8_t>(comm, count, in_place, what + ", int8");
          check_integers<std::uint16_t>(comm, count, !in_place, what + ", uint16");
          check_integers<std::int64_t>(comm, count, in_place, what + ", int64");
          in_place = !in_place;
        }
      }
    });
  }
}

TEST_CASE("premul_sum has the same bits on every rank, whatever the rounding") {
  for (const int ranks : {2, 3, 4, 5, 8, 9}) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) {
      for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
        comm.force_algorithm(algorithm);
        for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2,
                                    DataType::float32, DataType::float64})
          for (const std::size_t count : {5ul, 3001ul, 70'001ul})
            check_equal_bits(comm, type, count, algorithm + " " + std::string(name_of(type)));
      }
    });
  }
}

TEST_CASE("calls in turn may have different factors, blocking and asynchronous") {
  on_threads(3, [](Communicator& comm) {
    for (int round = 1; round < 20; ++round) {
      std::vector<float> data(10, 1);
      const float own = static_cast<float>(round * (comm.rank() + 1));
      if (round % 2 == 0)
        comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32, own);
      else
        comm.all_reduce_async(data.data(), data.data(), data.size(), DataType::float32, own).wait();
      expect(data == std::vector<float>(10, static_cast<float>(6 * round)), "round " + std::to_string(round));
    }
  });
}

TEST_CASE("booleans: any value but 0 is true, results are 0 or 1, with one rank too") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    INFO("ranks " << ranks);
    on_threads(ranks, [](Communicator& comm) {
      for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
        comm.force_algorithm(algorithm);
        for (int number = 0; number < kReduceOps; ++number) {
          const auto op = static_cast<ReduceOp>(number);
          if (!can_reduce(DataType::boolean, op)) continue;
          for (const std::size_t count : {1ul, 100ul, 60'001ul}) {
            const auto value = [&](int rank, std::size_t i) {
              const std::uint64_t w = word(rank, i);
              return static_cast<std::uint8_t>(w % 3 == 0 ? 0 : w >> 8);
            };
            std::vector<std::uint8_t> data(count), output(count);
            for (std::size_t i = 0; i < count; ++i) data[i] = value(comm.rank(), i);
            std::uint8_t* const result = count == 100 ? data.data() : output.data();
            comm.all_reduce(data.data(), result, count, DataType::boolean, op);
            for (std::size_t i = 0; i < count; ++i) {
              int trues = 0;
              for (int rank = 0; rank < comm.size(); ++rank) trues += value(rank, i) != 0;
              bool right = trues > 0;
              if (op == ReduceOp::prod || op == ReduceOp::min || op == ReduceOp::bit_and) right = trues == comm.size();
              if (op == ReduceOp::bit_xor) right = trues % 2 == 1;
              expect(result[i] == static_cast<std::uint8_t>(right), algorithm + " " + std::string(name_of(op)));
            }
          }
        }
      }
    });
  }
}

TEST_CASE("which op reduces which type, and what a refusal says") {
  const std::string floats = "sum, prod, max, min, avg, mulsum";
  const std::string integers = floats + ", bit_and, bit_or, bit_xor";
  const std::string booleans = "sum, prod, max, min, bit_and, bit_or, bit_xor";
  const std::vector<std::pair<DataType, std::string>> table{
      {DataType::int8, integers},      {DataType::uint8, integers},     {DataType::int16, integers},
      {DataType::uint16, integers},    {DataType::int32, integers},     {DataType::uint32, integers},
      {DataType::int64, integers},     {DataType::uint64, integers},    {DataType::float16, floats},
      {DataType::bfloat16, floats},    {DataType::float32, floats},     {DataType::float64, floats},
      {DataType::float8_e4m3, floats}, {DataType::float8_e5m2, floats}, {DataType::boolean, booleans},
  };
  REQUIRE(table.size() == kDataTypes);
  on_threads(2, [&](Communicator& comm) {
    std::vector<std::byte> data(80);
    for (const auto& [type, valid] : table)
      for (int number = 0; number < kReduceOps; ++number) {
        const auto op = static_cast<ReduceOp>(number);
        const std::string name(name_of(op)), list = ", " + valid + ",";
        const bool right = list.find(", " + name + ",") != std::string::npos;
        expect(can_reduce(type, op) == right, name);
        if (right) continue;
        const std::vector<std::string> texts{name + " does not reduce elements of type " + std::string(name_of(type)),
                                             "valid: " + valid};
        refused([&] { comm.all_reduce(data.data(), data.data(), 10, type, op); }, texts);
        refused([&] { comm.all_reduce_async(data.data(), data.data(), 10, type, op); }, texts);
        refused([&] { comm.explain(Collective::all_reduce, 10, type, op); }, texts);
      }
    const std::string op = "mulsum";
    const auto multiply = [&](DataType type, Factor by) {
      return [&comm, &data, type, by] { comm.all_reduce(data.data(), data.data(), 10, type, by); };
    };
    refused([&] { comm.all_reduce(data.data(), data.data(), 10, DataType::int32, ReduceOp::premul_sum); },
            {op + " of elements of type int32 needs a Factor", "in the operator's place"});
    refused(multiply(DataType::float32, 2.0), {"type float needs a Factor of their own type", "type double"});
    refused(multiply(DataType::float16, 2.0), {"type half needs a Factor of their own type", "type double"});
    refused(multiply(DataType::int64, 2), {"type int64 needs a Factor of their own type", "type int32"});
    refused(multiply(DataType::boolean, true), {op + " does not reduce elements of type bool", "valid: " + booleans});
    std::vector<std::int32_t> ones(3, 1);
    comm.all_reduce(std::span(ones));
    expect(ones[0] == 2, "the communicator still works");
  });
}

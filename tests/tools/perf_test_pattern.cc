#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "bench/perf/pattern.h"
#include "tests/tools/perf_test_fake.h"

using namespace tutti;
using namespace tutti::perf;
using namespace tutti::perf::test;

namespace {

constexpr std::size_t kCount = 193;

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

std::vector<ReduceOp> all_ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i)
    if (can_reduce(type, static_cast<ReduceOp>(i))) ops.push_back(static_cast<ReduceOp>(i));
  return ops;
}

// Pairs, pairs of pairs, ...: the order of a tree, rounded to the type at every node.
template <class F>
typename F::Storage reduce_as_tree(std::vector<typename F::Storage> values, ReduceOp op) {
  while (values.size() > 1) {
    std::vector<typename F::Storage> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) next.push_back(combine<F>(values[i], values[i + 1], op));
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

}  // namespace

TEST_CASE("formats store and read back every pattern of 8 and 16 bits") {
  const auto round_trip = []<class F>(std::uint32_t patterns) {
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < patterns; ++bits) {
      const double value = F::decode(static_cast<typename F::Storage>(bits));
      if (std::isfinite(value)) wrong += F::encode(value) != bits;
    }
    CHECK(wrong == 0);
  };
  round_trip.operator()<Float8E4M3>(256);
  round_trip.operator()<Float8E5M2>(256);
  round_trip.operator()<Float16>(65536);
  round_trip.operator()<BFloat16>(65536);
}

TEST_CASE("formats have the values of their definitions") {
  CHECK(Float8E4M3::decode(0x7e) == 448);
  CHECK(Float8E4M3::decode(0x01) == 0x1p-9);
  CHECK(std::isnan(Float8E4M3::decode(0x7f)));
  CHECK(Float8E5M2::decode(0x7b) == 57344);
  CHECK(std::isinf(Float8E5M2::decode(0x7c)));
  CHECK(Float16::decode(0x7bff) == 65504);
  CHECK(Float16::decode(0xc000) == -2);
  CHECK(BFloat16::decode(0x3f80) == 1);
  CHECK(Float16::encode(1 + 0x1p-11) == 0x3c00);      // a tie goes to even
  CHECK(Float16::encode(1 + 3 * 0x1p-11) == 0x3c02);  // the other way
  CHECK(Float16::encode(1 + 0x1p-11 + 0x1p-40) == 0x3c01);
  CHECK(Float16::encode(0x1p-24) == 0x0001);
  CHECK(Float16::encode(0x1p-25) == 0x0000);
  CHECK(Float8E4M3::encode(-448) == 0xfe);
}

TEST_CASE("every order of reducing gives the expected bits, for all types, ops and 1 to 17 ranks") {
  std::mt19937 random(7);
  for (const DataType type : all_types())
    for (const ReduceOp op : all_ops_of(type))
      for (int ranks = 1; ranks <= 17; ++ranks) {
        const Pattern pattern{type, op, ranks, static_cast<std::uint64_t>(ranks) * 31};
        with_format(type, [&]<class F>() {
          using T = typename F::Storage;
          std::vector<std::vector<T>> inputs(static_cast<std::size_t>(ranks), std::vector<T>(kCount));
          for (int r = 0; r < ranks; ++r) fill_input(pattern, r, 0, kCount, inputs[static_cast<std::size_t>(r)].data());
          std::vector<T> forward(kCount), backward(kCount), shuffled(kCount), tree(kCount);
          std::vector<std::size_t> order(static_cast<std::size_t>(ranks));
          std::iota(order.begin(), order.end(), 0);
          std::vector<T> operands(order.size());
          const auto gather = [&](std::size_t i) {
            for (std::size_t r = 0; r < order.size(); ++r)
              operands[r] = contribution<F>(inputs[order[r]][i], op, static_cast<int>(order[r]));
          };
          for (std::size_t i = 0; i < kCount; ++i) {
            std::sort(order.begin(), order.end());
            gather(i), forward[i] = reduce<F>(operands, type, op);
            // A tree rounds at other places; avg's scaling has been tried above.
            if (op != ReduceOp::avg) tree[i] = reduce_as_tree<F>(operands, op);
            std::reverse(order.begin(), order.end());
            gather(i), backward[i] = reduce<F>(operands, type, op);
            std::shuffle(order.begin(), order.end(), random);
            gather(i), shuffled[i] = reduce<F>(operands, type, op);
          }
          INFO(name_of(type) << " " << name_of(op) << " " << ranks << " ranks");
          CHECK(check_reduced(pattern, forward.data(), kCount).text == "");
          CHECK(check_reduced(pattern, backward.data(), kCount).text == "");
          CHECK(check_reduced(pattern, shuffled.data(), kCount).text == "");
          if (op != ReduceOp::avg) CHECK(check_reduced(pattern, tree.data(), kCount).text == "");
        });
      }
}

TEST_CASE("16- and 8-bit sums are the same when a step accumulates in float32") {
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      for (int ranks = 1; ranks <= 17; ++ranks) {
        const Pattern pattern{type, op, ranks, 5};
        with_format(type, [&]<class F>() {
          if constexpr (F::kFloat) {
            using T = typename F::Storage;
            std::vector<T> input(kCount), output(kCount);
            std::vector<float> sums(kCount, 0);
            const bool before = op == ReduceOp::avg && scales_before(type);
            for (int r = 0; r < ranks; ++r) {
              fill_input(pattern, r, 0, kCount, input.data());
              for (std::size_t i = 0; i < kCount; ++i) {
                const auto value = static_cast<float>(F::decode(input[i]));
                sums[i] += before ? value * (1.0f / static_cast<float>(ranks)) : value;
              }
            }
            for (std::size_t i = 0; i < kCount; ++i)
              output[i] = F::encode(op == ReduceOp::avg && !before ? sums[i] / static_cast<float>(ranks) : sums[i]);
            INFO(name_of(type) << " " << name_of(op) << " " << ranks);
            CHECK(check_reduced(pattern, output.data(), kCount).text == "");
          }
        });
      }
}

TEST_CASE("inputs are finite, never -0, and depend on rank, index and seed") {
  for (const DataType type : all_types())
    for (const ReduceOp op : all_ops_of(type))
      for (int ranks : {1, 2, 9, 64}) {
        with_format(type, [&]<class F>() {
          using T = typename F::Storage;
          constexpr std::size_t kMany = 4096;
          const auto make = [&](std::uint64_t seed, int rank, std::size_t begin) {
            std::vector<T> values(kMany);
            fill_input({type, op, ranks, seed}, rank, begin, kMany, values.data());
            return values;
          };
          const auto differing = [](const std::vector<T>& a, const std::vector<T>& b) {
            std::size_t count = 0;
            for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
            return count;
          };
          const std::vector<T> values = make(1, 0, 0);
          INFO(name_of(type) << " " << name_of(op) << " " << ranks);
          if constexpr (F::kFloat) {
            std::size_t bad = 0;
            for (const T value : values)
              bad += !std::isfinite(F::decode(value)) || (F::decode(value) == 0 && std::signbit(F::decode(value)));
            CHECK(bad == 0);
          }
          // Where few ranks take part at an index, most inputs are 0: a sixth must still differ.
          const std::size_t least = ranks == 64 ? kMany / 64 : kMany / 6;
          CHECK(differing(values, make(2, 0, 0)) > least);
          CHECK(differing(values, make(1, 0, 1)) > least);
          CHECK(differing(values, make(1, 0, std::size_t{1} << 33)) > least);
          if (ranks > 1) CHECK(differing(values, make(1, 1, 0)) > least);
          // A part of the stream is the stream's part.
          std::vector<T> part(100);
          fill_input({type, op, ranks, 1}, 0, 50, 100, part.data());
          CHECK(std::equal(part.begin(), part.end(), values.begin() + 50));
        });
      }
}

TEST_CASE("neighbouring results differ, so that a misplaced element is seen") {
  for (const DataType type : all_types())
    for (const ReduceOp op : all_ops_of(type))
      for (int ranks : {2, 3, 8, 17}) {
        constexpr std::size_t kMany = 2048;
        const std::size_t bytes = size_of(type);
        const Pattern pattern{type, op, ranks, 3};
        std::vector<std::byte> result((kMany + 1) * bytes);
        fill_reduced(pattern, 0, kMany + 1, result.data());
        INFO(name_of(type) << " " << name_of(op) << " " << ranks);
        CHECK(check_reduced(pattern, result.data(), kMany).count == 0);
        CHECK(check_reduced(pattern, result.data() + bytes, kMany).count > kMany / 8);  // shifted by one
      }
}

TEST_CASE("a lost or doubled contribution of any rank changes most sums") {
  for (const DataType type : all_types()) {
    if (type == DataType::boolean) continue;  // whose sum is "or"
    const Pattern pattern{type, ReduceOp::sum, 4, 11};
    with_format(type, [&]<class F>() {
      using T = typename F::Storage;
      std::vector<T> sum(kCount), input(kCount), without(kCount);
      fill_reduced(pattern, 0, kCount, sum.data());
      fill_input(pattern, 2, 0, kCount, input.data());
      for (std::size_t i = 0; i < kCount; ++i) {
        if constexpr (F::kFloat)
          without[i] = F::encode(F::decode(sum[i]) - F::decode(input[i]));
        else
          without[i] = static_cast<T>(sum[i] - input[i]);
      }
      INFO(name_of(type));
      CHECK(check_reduced(pattern, without.data(), kCount).count > kCount * 9 / 10);
    });
  }
}

TEST_CASE("one flipped bit is one wrong element, named") {
  const Pattern pattern{DataType::float32, ReduceOp::sum, 3, 9};
  std::vector<float> result(5000);
  fill_reduced(pattern, 0, result.size(), result.data());
  const float right = result[4321];
  result[4321] = std::nextafter(right, 1e9f);
  const Mismatch mismatch = check_reduced(pattern, result.data(), result.size());
  CHECK(mismatch.count == 1);
  CHECK(mismatch.first == 4321);
  CHECK_THAT(mismatch.text, Catch::Contains("element 4321 is 0x") && Catch::Contains("expected 0x"));
}

TEST_CASE("avg of float32 allows two units in the last place, and no more, when n is no power of two") {
  for (int ranks : {3, 4}) {
    const Pattern pattern{DataType::float32, ReduceOp::avg, ranks, 9};
    CHECK(tolerance(pattern) == (ranks == 3 ? 2 : 0));
    std::vector<float> result(100);
    fill_reduced(pattern, 0, result.size(), result.data());
    for (int ulps = 1; ulps <= 3; ++ulps) {
      for (float& value : result) value = std::nextafter(value, 1e9f);
      INFO(ranks << " ranks, " << ulps << " ulps");
      CHECK(check_reduced(pattern, result.data(), result.size()).count == (ranks == 4 || ulps == 3 ? 100 : 0));
    }
  }
}

// A library in the harness's place, simple enough to be right: every rank reduces all inputs one after the other,
// starting at itself, and rounds to the type after every operand. A fault can be planted in what it delivers.
#pragma once

#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/perf/number_format.h"
#include "bench/perf/peer.h"

namespace tutti::perf::test {

template <class F>
typename F::Storage combine(typename F::Storage a, typename F::Storage b, ReduceOp op) {
  using T = typename F::Storage;
  if constexpr (F::kFloat) {
    const double x = F::decode(a), y = F::decode(b);
    switch (op) {
      case ReduceOp::prod: return F::encode(x * y);
      case ReduceOp::min: return y < x ? b : a;
      case ReduceOp::max: return y > x ? b : a;
      default: return F::encode(x + y);
    }
  } else if constexpr (std::is_same_v<F, Boolean>) {
    switch (op) {
      case ReduceOp::prod:
      case ReduceOp::min:
      case ReduceOp::bit_and: return a != 0 && b != 0;
      case ReduceOp::bit_xor: return (a != 0) != (b != 0);
      default: return a != 0 || b != 0;
    }
  } else {
    switch (op) {
      case ReduceOp::bit_and: return static_cast<T>(a & b);
      case ReduceOp::bit_or: return static_cast<T>(a | b);
      case ReduceOp::bit_xor: return static_cast<T>(a ^ b);
      case ReduceOp::prod: return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      case ReduceOp::min: return std::min(a, b);
      case ReduceOp::max: return std::max(a, b);
      default: return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
  }
}

// avg as the library does it: float16 and float8 are scaled before, everything else is divided after.
inline bool scales_before(DataType type) {
  return type == DataType::float16 || type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
}

// What `rank` gives to mulsum, or as it is to every other op.
template <class F>
typename F::Storage contribution(typename F::Storage value, ReduceOp op, int rank) {
  if (op != ReduceOp::premul_sum) return value;
  if constexpr (F::kFloat)
    return F::encode(F::decode(value) * multiplier(rank));
  else
    return static_cast<typename F::Storage>(static_cast<std::uint64_t>(value) *
                                            static_cast<unsigned>(multiplier(rank)));
}

// Left to right over `operands`, each a pointer to one element.
template <class F>
typename F::Storage reduce(const std::vector<typename F::Storage>& operands, DataType type, ReduceOp op) {
  using T = typename F::Storage;
  const int n = static_cast<int>(operands.size());
  const auto prepared = [&](T value) {
    if constexpr (F::kFloat)
      if (op == ReduceOp::avg && scales_before(type))
        return F::encode(static_cast<float>(F::decode(value)) * (1.0f / static_cast<float>(n)));
    return value;
  };
  T sum = prepared(operands[0]);
  for (int r = 1; r < n; ++r) sum = combine<F>(sum, prepared(operands[static_cast<std::size_t>(r)]), op);
  if (op != ReduceOp::avg || scales_before(type)) return sum;
  if constexpr (F::kFloat)
    return F::encode(F::decode(sum) / n);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<T>(sum / static_cast<std::int64_t>(n));
  else
    return static_cast<T>(sum / static_cast<std::uint64_t>(n));
}

// What `rank` is about to be given by its call number `call` (from 0); may change it, and bytes around it.
using Fault = std::function<void(int rank, int call, std::byte* output, std::size_t bytes)>;

// Told each rank's input before each call.
using Watch = std::function<void(int rank, const void* input)>;

class FakeJob {
 public:
  explicit FakeJob(int ranks, Fault fault = {}, Watch watch = {})
      : ranks_(ranks),
        fault_(std::move(fault)),
        watch_(std::move(watch)),
        barrier_(ranks),
        inputs_(ranks),
        figures_(ranks) {}

  class Rank final : public Peer {
   public:
    Rank(FakeJob& job, int rank) : job_(job), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return job_.ranks_; }
    int local_size() const override { return job_.ranks_; }
    void barrier() override { job_.barrier_.arrive_and_wait(); }
    void gather(const double* mine, std::size_t count, double* all) override {
      job_.figures_[index()] = mine;
      barrier();
      for (int r = 0; r < size(); ++r)
        std::copy_n(job_.figures_[static_cast<std::size_t>(r)], count, all + count * static_cast<std::size_t>(r));
      barrier();
    }
    void run(const CollectiveCall& call) override {
      const auto [collective, input, output, count, type, op, root, factor] = call;
      job_.inputs_[index()] = input;
      if (job_.watch_) job_.watch_(rank_, input);
      barrier();
      const std::size_t bytes = count * size_of(type);
      std::vector<std::byte> result(bytes);
      with_format(type, [&]<class F>() {
        using T = typename F::Storage;
        auto* out = reinterpret_cast<T*>(result.data());
        std::vector<T> operands(static_cast<std::size_t>(size()));
        for (std::size_t i = 0; i < count; ++i) {
          for (int r = 0; r < size(); ++r) {
            const int from = (rank_ + r) % size();
            operands[static_cast<std::size_t>(r)] =
                contribution<F>(static_cast<const T*>(job_.inputs_[static_cast<std::size_t>(from)])[i], op, from);
          }
          out[i] = reduce<F>(operands, type, op);
        }
      });
      barrier();
      if (bytes > 0) std::memcpy(output, result.data(), bytes);
      if (job_.fault_) job_.fault_(rank_, calls_, static_cast<std::byte*>(output), bytes);
      ++calls_;
    }
    void start(const CollectiveCall& call) override { run(call); }
    void exchange(std::span<const Transfer>) override { throw std::logic_error("this library has no exchange"); }
    void start_exchange(std::span<const Transfer> transfers) override { exchange(transfers); }
    void finish() override {}
    PlanInfo explain(Collective, std::size_t count, DataType, ReduceOp) override {
      if (forced == "small" && count > 100) throw Error(ErrorCode::invalid_argument, "small does not fit");
      return {forced == "small" ? "small" : "fake", 0, 1, 2.5, "none", 3};
    }
    std::vector<std::string> algorithms(Collective) override { return {"fake", "other", "small"}; }
    void force_algorithm(const std::string& name) override { forced = name; }
    void abort(const std::string&) override { job_.barrier_.arrive_and_drop(); }
    std::string forced;

   private:
    std::size_t index() const { return static_cast<std::size_t>(rank_); }
    FakeJob& job_;
    int rank_;
    int calls_ = 0;
  };

  // Runs `body` for every rank on a thread of its own.
  void run(const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r)
      threads.emplace_back([this, r, &body] {
        Rank rank(*this, r);
        body(rank);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int ranks_;
  Fault fault_;
  Watch watch_;
  std::barrier<> barrier_;
  std::vector<const void*> inputs_;
  std::vector<const double*> figures_;
};

}  // namespace tutti::perf::test

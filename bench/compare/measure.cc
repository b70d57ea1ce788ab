#include "bench/compare/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/perf/guarded_buffer.h"
#include "bench/perf/pattern.h"
#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::compare {
namespace {

constexpr double kTurnUs = 8000;  // aim of one turn, touching and barriers included
constexpr int kMaxCalls = 1000, kWarmupCalls = 2;
constexpr std::size_t kCacheLine = 64;
constexpr int kPoison = 0xa7;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Bench {
 public:
  Bench(perf::Peer& peer, const Experiment& experiment)
      : peer_(peer), experiment_(experiment), input_(check_memory(), 0), output_(experiment.sizes.back(), 0) {}

  std::vector<std::string> algorithms() const {
    const std::vector<std::string> valid = peer_.algorithms(Collective::all_reduce);
    if (experiment_.algorithms.empty()) return valid;
    std::vector<std::string> chosen;
    for (const std::string& name : experiment_.algorithms)
      if (name != kAuto) chosen.push_back(base::parse_choice("--algos", name, valid));
    return chosen;
  }

  std::size_t count(std::size_t bytes) const { return bytes / size_of(experiment_.type); }

  // Forces the choice and says what will run; nothing when the algorithm does not fit the slot memory at this size. A
  // plan is the same on all ranks, so all skip it.
  std::string select(const std::string& algorithm, std::size_t bytes) {
    peer_.force_algorithm(algorithm == kAuto ? "" : algorithm);
    try {
      return peer_.explain(Collective::all_reduce, count(bytes), experiment_.type, experiment_.op).algorithm;
    } catch (const Error& error) {
      if (algorithm == kAuto || error.code() != ErrorCode::invalid_argument) throw;
      return "";
    }
  }

  // New data, one call, an exact check on every rank.
  void verify(const std::string& algorithm, std::size_t bytes) {
    const perf::Pattern pattern{experiment_.type, experiment_.op, peer_.size(), ++seed_};
    const std::size_t n = count(bytes), used = n * size_of(experiment_.type);
    perf::fill_input(pattern, peer_.rank(), 0, n, input_.data());
    std::fill_n(output_.data(), used, static_cast<std::byte>(kPoison));
    output_.arm(output_.data(), used);
    peer_.barrier();
    call(bytes);
    const perf::Mismatch mismatch = perf::check_reduced(pattern, output_.data(), n);
    const double wrong = static_cast<double>(mismatch.count + output_.violations());
    const double total = gathered(wrong, [](const std::vector<double>& all) {
      double sum = 0;
      for (const double value : all) sum += value;
      return sum;
    });
    if (total == 0) return;
    throw Error(ErrorCode::internal_error,
                "algorithm " + algorithm + " gives wrong data with " + std::to_string(peer_.size()) + " ranks and " +
                    std::to_string(bytes) + " bytes: " +
                    (wrong == 0 ? "seen by another rank"
                                : std::to_string(static_cast<long long>(wrong)) + " wrong elements on rank " +
                                      std::to_string(peer_.rank()) + ", " + mismatch.text));
  }

  // Microseconds of one call, touched: the average of `calls` on the slowest rank.
  double turn(std::size_t bytes, int calls) {
    double total = 0;
    for (int i = 0; i < calls; ++i) {
      touch(bytes);
      peer_.barrier();
      const double begin = now_us();
      call(bytes);
      total += now_us() - begin;
      read(bytes);
    }
    return gathered(total / calls, slowest);
  }

  // How many calls make a turn of kTurnUs; the same on all ranks.
  int calls_for(std::size_t bytes) {
    for (int i = 0; i < kWarmupCalls; ++i) call(bytes);
    peer_.barrier();
    const double begin = now_us();
    turn(bytes, 3);
    const double each = gathered((now_us() - begin) / 3, slowest);
    return std::clamp(static_cast<int>(kTurnUs / each), 1, kMaxCalls);
  }

  void warm_up(std::size_t bytes) { call(bytes); }

 private:
  static double slowest(const std::vector<double>& all) { return *std::max_element(all.begin(), all.end()); }

  template <class Combine>
  double gathered(double mine, Combine combine) {
    std::vector<double> all(static_cast<std::size_t>(peer_.size()));
    peer_.gather(&mine, 1, all.data());
    return combine(all);
  }

  void call(std::size_t bytes) {
    peer_.all_reduce(input_.data(), output_.data(), count(bytes), experiment_.type, experiment_.op);
  }
  void touch(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += kCacheLine) {
      volatile std::byte* byte = input_.data() + i;
      *byte = *byte;
    }
  }
  void read(std::size_t bytes) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes; i += kCacheLine)
      sum += std::to_integer<std::uint64_t>(*static_cast<volatile std::byte*>(output_.data() + i));
    sink_ = sum;
  }

  // Returns the capacity of a buffer, so that the check comes before the first allocation.
  std::size_t check_memory() {
    const std::size_t bytes = experiment_.sizes.back();
    const std::size_t need =
        2 * perf::GuardedBuffer::footprint(bytes, 0) * static_cast<std::size_t>(peer_.local_size());
    const std::size_t room = perf::available_memory();
    const double margin = gathered(static_cast<double>(room) - static_cast<double>(need),
                                   [](const auto& all) { return *std::min_element(all.begin(), all.end()); });
    if (margin < 0)
      throw Error(ErrorCode::invalid_argument,
                  "--sizes has " + std::to_string(bytes) + " bytes, for which " + std::to_string(peer_.local_size()) +
                      " ranks need " + base::format_bytes(need) + " of buffers, but " + base::format_bytes(room) +
                      " are available; valid: smaller sizes or fewer ranks");
    return bytes;
  }

  perf::Peer& peer_;
  const Experiment& experiment_;
  perf::GuardedBuffer input_, output_;
  std::uint64_t seed_ = 0;
  volatile std::uint64_t sink_ = 0;
};

}  // namespace

Outcome measure(perf::Peer& peer, const Experiment& experiment,
                const std::function<void(const std::string&)>& progress) {
  Bench bench(peer, experiment);
  Outcome outcome{peer.size(), experiment.sizes, bench.algorithms(), {}};
  outcome.algorithms.emplace_back(kAuto);
  outcome.cells.assign(outcome.algorithms.size(), std::vector<Cell>(outcome.sizes.size()));
  std::vector<std::vector<int>> calls(outcome.algorithms.size(), std::vector<int>(outcome.sizes.size(), 0));
  const auto say = [&](const std::string& line) {
    if (progress && peer.rank() == 0) progress(line);
  };
  const auto for_each_cell = [&](int round, const auto& visit) {
    for (std::size_t s = 0; s < outcome.sizes.size(); ++s)
      for (std::size_t i = 0; i < outcome.algorithms.size(); ++i) {
        const std::size_t a = (i + static_cast<std::size_t>(round)) % outcome.algorithms.size();
        const std::string ran = bench.select(outcome.algorithms[a], outcome.sizes[s]);
        // The cell of an algorithm that cannot run at this size stays empty.
        if (outcome.algorithms[a] == kAuto || ran == outcome.algorithms[a]) visit(a, s, ran);
      }
  };
  say(std::to_string(peer.size()) + " ranks: checking " + std::to_string(outcome.algorithms.size()) +
      " algorithms at " + std::to_string(outcome.sizes.size()) + " sizes");
  for_each_cell(0, [&](std::size_t a, std::size_t s, const std::string& ran) {
    bench.verify(outcome.algorithms[a], outcome.sizes[s]);
    calls[a][s] = bench.calls_for(outcome.sizes[s]);
    outcome.cells[a][s].chosen = ran;
  });
  for (int round = 0; round < experiment.rounds; ++round) {
    say(std::to_string(peer.size()) + " ranks: round " + std::to_string(round + 1) + " of " +
        std::to_string(experiment.rounds));
    for_each_cell(round, [&](std::size_t a, std::size_t s, const std::string&) {
      bench.warm_up(outcome.sizes[s]);
      outcome.cells[a][s].round_us.push_back(bench.turn(outcome.sizes[s], calls[a][s]));
    });
  }
  for_each_cell(0, [&](std::size_t a, std::size_t s, const std::string&) {
    bench.verify(outcome.algorithms[a], outcome.sizes[s]);
  });
  peer.force_algorithm("");
  return outcome;
}

}  // namespace tutti::compare

#include "bench/compare/bench.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "bench/perf/pattern.h"
#include "bench/perf/statistics.h"
#include "src/base/env.h"
#include "src/topology/topology.h"
#include "tutti/error.h"

namespace tutti::compare {
namespace {

constexpr int kMaxCalls = 1000;
constexpr std::size_t kCacheLine = 64;
constexpr int kPoison = 0xa7;

}  // namespace

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void bind_to_core(int rank) {
  const topology::Topology machine = topology::detect(topology::Devices::skip);
  const std::vector<int> cores = topology::allowed_cores(machine);
  const topology::Core& core =
      machine.cores[static_cast<std::size_t>(cores[static_cast<std::size_t>(rank) % cores.size()])];
  if (core.allowed_pus.empty()) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(core.allowed_pus.front(), &own);
  ::sched_setaffinity(0, sizeof own, &own);  // where it fails, the system's choice has to do
}

Bench::Bench(perf::Peer& peer, DataType type, ReduceOp op, std::size_t largest)
    : peer_(peer), type_(type), op_(op), input_(check_memory(largest), 0), output_(largest, 0) {}

std::string Bench::select(const std::string& forced, std::size_t bytes) {
  peer_.force_algorithm(forced == kAuto ? "" : forced);
  try {
    return peer_.explain(Collective::all_reduce, count(bytes), type_, op_).algorithm;
  } catch (const Error& error) {
    if (forced == kAuto || error.code() != ErrorCode::invalid_argument) throw;
    return "";
  }
}

void Bench::verify(const std::string& forced, std::size_t bytes) {
  const perf::Pattern pattern{type_, op_, peer_.size(), ++seed_};
  const std::size_t n = count(bytes), used = n * size_of(type_);
  perf::fill_input(pattern, peer_.rank(), 0, n, input_.data());
  std::fill_n(output_.data(), used, static_cast<std::byte>(kPoison));
  output_.arm(output_.data(), used);
  peer_.barrier();
  call(bytes);
  const perf::Mismatch mismatch = perf::check_reduced(pattern, output_.data(), n);
  const double wrong = static_cast<double>(mismatch.count + output_.violations());
  const std::vector<double> all = gathered({wrong});
  if (std::accumulate(all.begin(), all.end(), 0.0) == 0) return;
  throw Error(ErrorCode::internal_error,
              "algorithm " + forced + " gives wrong data with " + std::to_string(peer_.size()) + " ranks and " +
                  std::to_string(bytes) + " bytes: " +
                  (wrong == 0 ? "seen by another rank"
                              : std::to_string(static_cast<long long>(wrong)) + " wrong elements on rank " +
                                    std::to_string(peer_.rank()) + ", " + mismatch.text));
}

double Bench::turn(std::size_t bytes, int calls) {
  std::vector<double> mine(static_cast<std::size_t>(calls));
  for (double& time : mine) {
    touch(bytes);
    peer_.barrier();
    const double begin = now_us();
    call(bytes);
    time = now_us() - begin;
    read(bytes);
  }
  const std::vector<double> all = gathered(mine);
  for (std::size_t i = 0; i < mine.size(); ++i)
    for (std::size_t at = i; at < all.size(); at += mine.size()) mine[i] = std::max(mine[i], all[at]);
  return perf::median(mine);
}

int Bench::calls_for(std::size_t bytes, double turn_us) {
  call(bytes);  // makes connections
  peer_.barrier();
  double begin = now_us();
  call(bytes);
  if (slowest(now_us() - begin) > turn_us) return 1;
  begin = now_us();
  turn(bytes, 3);
  return std::clamp(static_cast<int>(turn_us / slowest((now_us() - begin) / 3)), 1, kMaxCalls);
}

double Bench::slowest(double mine) {
  const std::vector<double> all = gathered({mine});
  return *std::max_element(all.begin(), all.end());
}

// Rank after rank.
std::vector<double> Bench::gathered(const std::vector<double>& mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(peer_.size()));
  peer_.gather(mine.data(), mine.size(), all.data());
  return all;
}

void Bench::call(std::size_t bytes) {
  peer_.run({Collective::all_reduce, input_.data(), output_.data(), count(bytes), type_, op_});
}

void Bench::touch(std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kCacheLine) {
    volatile std::byte* byte = input_.data() + i;
    *byte = *byte;
  }
}

void Bench::read(std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += kCacheLine)
    sum += std::to_integer<std::uint64_t>(*static_cast<volatile std::byte*>(output_.data() + i));
  sink_ = sum;
}

// Returns the capacity of a buffer, so that the check comes before the first allocation.
std::size_t Bench::check_memory(std::size_t bytes) {
  const std::size_t need = 2 * perf::GuardedBuffer::footprint(bytes, 0) * static_cast<std::size_t>(peer_.local_size());
  const std::size_t room = perf::available_memory();
  if (slowest(static_cast<double>(need) - static_cast<double>(room)) > 0)
    throw Error(ErrorCode::invalid_argument,
                "--sizes has " + std::to_string(bytes) + " bytes, for which " + std::to_string(peer_.local_size()) +
                    " ranks need " + base::format_bytes(need) + " of buffers, but " + base::format_bytes(room) +
                    " are available; valid: smaller sizes or fewer ranks");
  return bytes;
}

}  // namespace tutti::compare

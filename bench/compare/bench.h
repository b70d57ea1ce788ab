// What one rank does to measure calls: forces an algorithm, checks its results, times turns of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/compare/experiment.h"
#include "bench/perf/guarded_buffer.h"
#include "bench/perf/peer.h"

namespace tutti::compare {

// Every rank makes the same calls on its own Bench.
class Bench {
 public:
  // Of sizes up to `largest`. Throws Error(invalid_argument) when the buffers do not fit the memory.
  Bench(perf::Peer& peer, DataType type, ReduceOp op, std::size_t largest);

  // Forces the choice (kAuto: frees it) and says which algorithm will run; nothing when what is forced does not fit the
  // slot memory at this size. A plan is the same on all ranks, so all skip it.
  std::string select(const std::string& forced, std::size_t bytes);

  // New data, one call, an exact check on every rank; Error(internal_error) on all of them when it is wrong anywhere.
  void verify(const std::string& forced, std::size_t bytes);

  // Microseconds of one call, touched: the median over `calls` calls of the slowest rank's time. The same on all ranks.
  double turn(std::size_t bytes, int calls);

  // How many calls make a turn of `turn_us`, found by making some; the same on all ranks.
  int calls_for(std::size_t bytes, double turn_us);

  void warm_up(std::size_t bytes) { call(bytes); }

  // The slowest rank's value.
  double slowest(double mine);

 private:
  std::size_t check_memory(std::size_t bytes);
  std::size_t count(std::size_t bytes) const { return bytes / size_of(type_); }
  void call(std::size_t bytes);
  void touch(std::size_t bytes);
  void read(std::size_t bytes);
  std::vector<double> gathered(const std::vector<double>& mine);

  perf::Peer& peer_;
  DataType type_;
  ReduceOp op_;
  perf::GuardedBuffer input_, output_;
  std::uint64_t seed_ = 0;
  volatile std::uint64_t sink_ = 0;
};

double now_us();

// Keeps the calling thread on one of the cores it may use, by turns of the rank. What else runs then slows a call down
// now and then, but does not put two ranks on one core for seconds, where calls take a thousand times as long.
void bind_to_core(int rank);

}  // namespace tutti::compare

// One row of the table on one rank: data, checks and timing of one size, type, op and root.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/guarded_buffer.h"
#include "bench/perf/options.h"

namespace tutti::perf {

// The same on every rank.
struct Timing {
  double time_us = 0;           // of one call, over the ranks as -a says
  std::vector<double> call_us;  // every call, the slowest rank's time; empty unless asked for
  double wrong = 0;             // elements of all ranks
  double out_of_bounds = 0;     // guard bytes of all ranks
};

struct RowSpec {
  std::size_t size;  // elements that -b, -e and the steps ask for
  DataType type;
  ReduceOp op;
  int root;
};

struct Row {
  RowSpec spec;
  std::size_t reported_bytes = 0;  // the size column
  std::size_t count = 0;           // the count column
  std::string redop;               // "none" for collectives that reduce nothing
  Timing out_of_place;
  std::optional<Timing> in_place;  // none: the collective cannot
  PlanInfo plan;                   // only with Options::more
};

// Measures one rank's part of a row after the other; every rank runs the same rows in the same order.
class Measurement {
 public:
  // Buffers for the largest row. Throws Error(system_error) when there is no memory.
  Measurement(Peer& peer, const CollectiveUnderTest& collective, const Options& options);

  Row run(const RowSpec& spec);

  // What is wrong on this rank, for its error message; empty when all was right so far.
  const std::string& complaint() const { return complaint_; }

  // Memory of one rank's buffers.
  static std::size_t footprint(const CollectiveUnderTest& collective, const Options& options, int ranks);

 private:
  struct Side;  // out of place or in place: the pointers and sizes of one call

  Side side(const RowSpec& spec, bool in_place);
  Timing run_side(const Side& side);
  void prepare(const Side& side, std::uint64_t seed);
  std::size_t violations(const Side& side) const;
  void check(const Side& side, std::uint64_t seed, Timing& timing);
  void touch_input(const Side& side);
  void read_output(const Side& side);
  void iterate(const Side& side, int iterations);
  double timed_loop(const Side& side);
  std::vector<double> stamped_loop(const Side& side);
  double over_ranks(double mine) const;
  double sum_over_ranks(double mine) const;
  void complain(const std::string& text);

  Peer& peer_;
  const CollectiveUnderTest& collective_;
  const Options& options_;
  std::size_t input_capacity_, output_capacity_;
  GuardedBuffer input_, output_;
  std::uint64_t seed_ = 0;
  std::string complaint_;
  volatile std::uint64_t sink_ = 0;  // keeps read_output from being removed
};

}  // namespace tutti::perf

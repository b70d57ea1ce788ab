// What a *_perf program measures: one collective, as data for the shared harness. Each program is one file that fills
// this in and calls perf_main; it is all_reduce.cc, broadcast.cc, ... in this folder.
#pragma once

#include <cstddef>
#include <string_view>

#include "bench/perf/pattern.h"
#include "bench/perf/peer.h"

namespace tutti::perf {

// One call: pointers are the rank's own, `count` is the call's argument.
struct Call {
  const void* input;
  void* output;
  std::size_t count;
  DataType type;
  ReduceOp op;
  int root;  // -1 when the collective has none
};

// Elements of one row of the table whose size column is `count` elements.
struct Shape {
  std::size_t call_count;       // the call's argument
  std::size_t input_count;      // a rank's input
  std::size_t output_count;     // a rank's output
  std::size_t reported_count;   // elements that algbw counts
  std::size_t input_in_output;  // in place, the input begins at this element of the output
};

class CollectiveUnderTest {
 public:
  virtual ~CollectiveUnderTest() = default;
  virtual std::string_view name() const = 0;  // "all_reduce"
  virtual Collective collective() const = 0;
  virtual bool reduces() const = 0;
  virtual bool rooted() const = 0;
  virtual Shape shape(std::size_t count, int rank, int ranks) const = 0;
  // busbw = algbw * this: the share of a link's bandwidth that the best algorithm would use.
  virtual double bus_factor(int ranks) const = 0;

  virtual void run(Peer& peer, const Call& call) const = 0;    // blocks until it is complete
  virtual void start(Peer& peer, const Call& call) const = 0;  // Peer::finish() waits
  virtual Mismatch check_output(const Pattern& pattern, int rank, const void* output, std::size_t count) const = 0;
};

// The program: parses, connects, measures, reports. Exit status: 0 all right, 1 wrong data or an error while running,
// 2 a bad command line.
int perf_main(int argc, char** argv, const CollectiveUnderTest& collective);

}  // namespace tutti::perf

// What a *_perf program measures: one collective, for the shared harness. Each program is one file that fills this in
// and calls perf_main; it is all_reduce.cc, broadcast.cc, ... in this folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/perf/pattern.h"
#include "bench/perf/peer.h"

namespace tutti::perf {

// Whose view of a call.
struct Place {
  int rank;
  int ranks;
  int root;  // -1 when the collective has none
  std::size_t own() const { return static_cast<std::size_t>(rank); }
  std::size_t all() const { return static_cast<std::size_t>(ranks); }
};

// Elements of one row of the table.
struct Shape {
  std::size_t call_count;           // the call's argument; the count column
  std::size_t input_count;          // a rank's input; 0: it has none
  std::size_t output_count;         // a rank's output; 0: it has none
  std::size_t reported_count;       // of the size column, which algbw counts; equal on all ranks
  std::size_t input_in_output = 0;  // in place, the input begins at this element of the output
  std::size_t output_in_input = 0;  // or the output at this element of the input
};

// What a part of the output must be: elements [at, at + count) of it are elements [from, ...) of what `rank`
// contributed, or of the reduction.
struct Expected {
  static constexpr int kReduced = -1;
  std::size_t at, count;
  int rank;
  std::size_t from;
};

class CollectiveUnderTest {
 public:
  virtual ~CollectiveUnderTest() = default;
  virtual std::string_view name() const = 0;  // "all_reduce"
  // None: it is made of messages between two ranks, and no planner chooses.
  virtual std::optional<Collective> collective() const = 0;
  virtual bool reduces() const { return false; }
  virtual bool rooted() const { return false; }
  virtual bool in_place() const { return true; }
  // Why it cannot run with so many ranks; empty when it can.
  virtual std::string refusal(int ranks) const { return static_cast<void>(ranks), std::string(); }
  // `size` is the row's size in elements of `element_bytes`.
  virtual Shape shape(std::size_t size, std::size_t element_bytes, const Place& place) const = 0;
  virtual std::vector<Expected> expected(std::size_t call_count, const Place& place) const = 0;
  // busbw = algbw * this: the share of a link's bandwidth that the best algorithm would use.
  virtual double bus_factor(int ranks) const = 0;

  // Blocks until it is complete. `call` names the collective, if there is one.
  virtual void run(Peer& peer, const CollectiveCall& call) const { peer.run(call); }
  virtual void start(Peer& peer, const CollectiveCall& call) const { peer.start(call); }  // Peer::finish() waits
};

// nccl-tests' share of a size for each of `ranks` blocks: whole 16 bytes.
constexpr std::size_t block_of(std::size_t size, std::size_t element_bytes, int ranks) {
  const std::size_t unit = 16 / element_bytes;
  return size / static_cast<std::size_t>(ranks) / unit * unit;
}

// The program: parses, connects, measures, reports. Exit status: 0 all right, 1 wrong data or an error while running,
// 2 a bad command line.
int perf_main(int argc, char** argv, const CollectiveUnderTest& collective);

}  // namespace tutti::perf

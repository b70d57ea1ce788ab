// What a collective must bring about: for every rank and output chunk, whose input chunks it must hold, each exactly
// once.
#pragma once

#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

// One rank's input chunk, as it takes part in a result.
struct Contribution {
  int rank = 0;
  int chunk = 0;
  friend constexpr auto operator<=>(const Contribution&, const Contribution&) = default;
};

// Output chunks that share a set of contributions share an entry of `sets`; they hold the same result.
struct Contract {
  static constexpr int kUnlisted = -1;  // the chunk must not be written

  std::vector<std::vector<Contribution>> sets;  // each sorted
  std::vector<std::vector<int>> set_of;         // [rank][output chunk]: index into sets, or kUnlisted
};

// The contract of the Schedule's collective for its number of ranks, root and chunks.
// all_reduce: chunk c of every rank's input, in chunk c of every output. barrier: the same, of no elements; a single
// rank has nothing to do. broadcast: the root's chunk c. all_gather: block b of every output is rank b's input. reduce
// and gather: as all_reduce and all_gather, at the root; other ranks have no output. reduce_scatter: chunk c of block r
// of every rank's input, in chunk c of rank r's output. scatter: block r of the root's input in rank r's output.
// all_to_all: block b of rank r's output is block r of rank b's input.
Contract contract_of(const Schedule& schedule);

}  // namespace tutti::schedule

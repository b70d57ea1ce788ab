// The algorithms, as a table: each entry builds the Schedule of one algorithm for any number of ranks, and states what
// it costs as data. A new algorithm is one new file with one pure function, and one line in builders.cc.
//
//   const Builder* ring = find_builder(Collective::all_reduce, "ring");
//   Schedule schedule = ring->build({.ranks = 8, .lanes = 2});
//
// Everything here is pure: no I/O, no state; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/schedule/schedule.h"
#include "tutti/types.h"

namespace tutti::schedule {

// What a builder is asked for. A builder throws Error(invalid_argument) for a Shape that makes no sense.
struct Shape {
  int ranks = 1;
  std::vector<int> order{};  // a permutation of the ranks: neighbours on rings, positions in trees; empty: 0..ranks-1
  int lanes = 1;             // how many times the algorithm runs side by side, each on its share of the chunks
  int root = 0;              // of rooted collectives
};

// What a Schedule costs, in the terms of docs/algorithms.md. S is the size of the larger of input and output in bytes.
// Each fact is a function of the number of ranks; bytes are in units of S, for the busiest rank of all, one direction.
struct Cost {
  int (*rounds)(int ranks);        // messages one after another on the longest chain: the factor of alpha
  double (*published)(int ranks);  // bytes a rank writes when a message to several readers is written once (memory)
  double (*sent)(int ranks);       // bytes a rank writes when every reader gets its own copy (sockets)
  double (*received)(int ranks);   // bytes a rank takes from other ranks
  double (*reduced)(int ranks);    // bytes a rank reads as operands of reductions: the factor of gamma
};

struct Builder {
  std::string_view name;  // as users spell it
  Collective collective = Collective::all_reduce;
  Schedule (*build)(const Shape&) = nullptr;
  int min_slots = 1;         // slots per port below which the Schedule may deadlock
  bool rooted = false;       // Shape::root matters
  std::string_view summary;  // one line for people
  Cost cost;
};

// All algorithms; those of one collective stand together, in the order in which they are shown.
std::span<const Builder> builders();

// Nothing for an unknown name.
const Builder* find_builder(Collective collective, std::string_view name);

// The names of a collective's algorithms, "ring, tree, oneshot", for messages that list what is valid.
std::string builder_names(Collective collective);

// The builders themselves, one file each.
Schedule build_ring_all_reduce(const Shape& shape);
Schedule build_tree_all_reduce(const Shape& shape);
Schedule build_oneshot_all_reduce(const Shape& shape);
Schedule build_twoshot_all_reduce(const Shape& shape);
Schedule build_halving_doubling_all_reduce(const Shape& shape);
Schedule build_tree_broadcast(const Shape& shape);
Schedule build_chain_broadcast(const Shape& shape);
Schedule build_oneshot_broadcast(const Shape& shape);
Schedule build_ring_all_gather(const Shape& shape);
Schedule build_oneshot_all_gather(const Shape& shape);
Schedule build_doubling_all_gather(const Shape& shape);
Schedule build_oneshot_barrier(const Shape& shape);
Schedule build_tree_barrier(const Shape& shape);
Schedule build_tree_reduce(const Shape& shape);
Schedule build_chain_reduce(const Shape& shape);
Schedule build_oneshot_reduce(const Shape& shape);
Schedule build_ring_reduce_scatter(const Shape& shape);
Schedule build_oneshot_reduce_scatter(const Shape& shape);
Schedule build_halving_reduce_scatter(const Shape& shape);
Schedule build_oneshot_all_to_all(const Shape& shape);
Schedule build_oneshot_gather(const Shape& shape);
Schedule build_oneshot_scatter(const Shape& shape);

}  // namespace tutti::schedule

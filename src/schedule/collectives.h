// What the collectives are like, as one table: which ranks have which buffers, of how many blocks, and which blocks are
// the same memory when a call is in place. Builders, verifier, planner, runtime and tests all ask here.
#pragma once

#include <cstddef>
#include <optional>

#include "tutti/types.h"

namespace tutti::schedule {

struct CollectiveTraits {
  bool reduces = false;          // combines elements by an operator
  bool input_per_rank = false;   // the input has a block for every rank; else it is one block
  bool output_per_rank = false;  // likewise
  bool input_at_root = false;    // only the root has an input; others' is never touched, and may be null
  bool output_at_root = false;   // likewise
  constexpr bool rooted() const { return input_at_root || output_at_root; }
};

inline constexpr CollectiveTraits kCollectiveTraits[kCollectives] = {
    {.reduces = true},                                  // all_reduce
    {.input_at_root = true},                            // broadcast
    {.output_per_rank = true},                          // all_gather
    {},                                                 // barrier
    {.reduces = true, .output_at_root = true},          // reduce
    {.reduces = true, .input_per_rank = true},          // reduce_scatter
    {.input_per_rank = true, .output_per_rank = true},  // all_to_all
    {.output_per_rank = true, .output_at_root = true},  // gather
    {.input_per_rank = true, .input_at_root = true},    // scatter
};

constexpr const CollectiveTraits& traits_of(Collective collective) {
  return kCollectiveTraits[static_cast<std::size_t>(collective)];
}

constexpr int input_blocks(Collective collective, int ranks) {
  return traits_of(collective).input_per_rank ? ranks : 1;
}
constexpr int output_blocks(Collective collective, int ranks) {
  return traits_of(collective).output_per_rank ? ranks : 1;
}
constexpr bool has_input(Collective collective, int root, int rank) {
  return !traits_of(collective).input_at_root || rank == root;
}
constexpr bool has_output(Collective collective, int root, int rank) {
  return !traits_of(collective).output_at_root || rank == root;
}
// A rank that takes nothing from others: its call could end by itself.
constexpr bool only_sends(Collective collective, int root, int rank) {
  const CollectiveTraits& traits = traits_of(collective);
  return traits.rooted() && (rank == root) == traits.input_at_root;
}

// In place, block `input` of a rank's input is block `output` of its output; nothing for a collective that has no
// in-place form. Of ranks that have both buffers.
struct InPlace {
  int input = 0;
  int output = 0;
};
constexpr std::optional<InPlace> in_place_of(Collective collective, int rank) {
  const CollectiveTraits& traits = traits_of(collective);
  if (traits.input_per_rank && traits.output_per_rank) return {};
  return InPlace{traits.input_per_rank ? rank : 0, traits.output_per_rank ? rank : 0};
}

// The same in chunks, `per_block` of a block: the output chunk that an input chunk is; -1 where it is none.
constexpr int in_place_chunk(Collective collective, int rank, int per_block, int input_chunk) {
  const std::optional<InPlace> same = in_place_of(collective, rank);
  if (!same || input_chunk / per_block != same->input) return -1;
  return same->output * per_block + input_chunk % per_block;
}

}  // namespace tutti::schedule

// The collectives that only move blocks between ranks, in one round: all-to-all, gather and scatter. Each block has one
// chunk per lane; every pair of ranks that has something to say has a port of its own. S is the larger buffer.
//
// all_to_all: send every other rank its block; store the own block; receive and store everybody's. Bytes sent and
// received per rank S (P - 1) / P.
// gather: everybody sends its block to the root, which stores its own, then receives and stores the others'.
// scatter: the root sends every other rank its block, then stores its own. Of both, the root moves S (P - 1) / P,
// the others S / P.
// Rounds 1. A tree would move blocks several times and save the root nothing but messages.
#include "src/schedule/draft.h"

namespace tutti::schedule {

Schedule build_oneshot_all_to_all(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("oneshot", Collective::all_to_all, shape);
  const int n = shape.ranks, lanes = shape.lanes;
  Draft draft("oneshot", Collective::all_to_all, shape, lanes);
  for (int l = 0; l < lanes; ++l) {
    const PairPorts ports(draft, l);
    for (int rank = 0; rank < n; ++rank) {
      Lane lane;
      // Everybody starts with its right neighbour, so that nobody is everybody's first.
      for (int d = 1; d < n; ++d) {
        const int to_rank = (rank + d) % n;
        lane.push_back({.in = {input(to_rank * lanes + l)}, .out = {to(ports(rank, to_rank))}});
      }
      lane.push_back({.in = {input(rank * lanes + l)}, .out = {output(rank * lanes + l)}});
      for (int d = 1; d < n; ++d) {
        const int from_rank = (rank + n - d) % n;  // in the order in which they send to this rank
        lane.push_back({.in = {from(ports(from_rank, rank))}, .out = {output(from_rank * lanes + l)}});
      }
      draft.lane(rank, std::move(lane));
    }
  }
  return std::move(draft).finish();
}

Schedule build_oneshot_gather(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("oneshot", Collective::gather, shape);
  const int n = shape.ranks, lanes = shape.lanes;
  Draft draft("oneshot", Collective::gather, shape, lanes);
  for (int l = 0; l < lanes; ++l) {
    Lane collect{{.in = {input(l)}, .out = {output(shape.root * lanes + l)}}};
    for (int rank : all_but(n, shape.root)) {
      const int port = draft.port(rank, {shape.root}, l);
      draft.lane(rank, {{.in = {input(l)}, .out = {to(port)}}});
      collect.push_back({.in = {from(port)}, .out = {output(rank * lanes + l)}});
    }
    draft.lane(shape.root, std::move(collect));
  }
  return std::move(draft).finish();
}

Schedule build_oneshot_scatter(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("oneshot", Collective::scatter, shape);
  const int n = shape.ranks, lanes = shape.lanes;
  Draft draft("oneshot", Collective::scatter, shape, lanes);
  for (int l = 0; l < lanes; ++l) {
    Lane deal;
    for (int rank : all_but(n, shape.root)) {
      const int port = draft.port(shape.root, {rank}, l);
      deal.push_back({.in = {input(rank * lanes + l)}, .out = {to(port)}});
      draft.lane(rank, {{.in = {from(port)}, .out = {output(l)}}});
    }
    deal.push_back({.in = {input(shape.root * lanes + l)}, .out = {output(l)}});
    draft.lane(shape.root, std::move(deal));
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

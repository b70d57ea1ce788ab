// Reduce-scatter on a ring, and in one round. Block r of every rank's input is reduced at rank r; each block has one
// chunk per lane. S is the input.
//
// ring: block b starts at the position after rank b's, collects every rank's contribution on its way round, and is
// stored, complete, by rank b. Steps of the rank at position p: send the block of position p - 1; P - 2 times receive,
// reduce with the own contribution, send; receive, reduce, store. Even lanes follow Shape::order, odd lanes its
// reverse. Rounds P - 1; bytes sent, received per rank S (P - 1) / P. Two slots, as for the all-reduce on a ring.
// oneshot: send every other rank its block of the own input; reduce the own block in rank order 0..P-1. Rounds 1; bytes
// as on the ring, but every rank talks to every other.
#include "src/schedule/draft.h"

namespace tutti::schedule {

Schedule build_ring_reduce_scatter(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("ring", Collective::reduce_scatter, shape);
  const int n = shape.ranks;
  Draft draft("ring", Collective::reduce_scatter, shape, shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const RingLane ring(draft, l);
    for (int p = 0; p < n; ++p) {
      const int in_port = ring.in_port(p), out_port = ring.out_port(p);
      const auto contribution = [&](int steps_back) { return input(ring.rank_at(p - steps_back) * shape.lanes + l); };
      Lane lane;
      lane.push_back({.in = {contribution(1)}, .out = {to(out_port)}});
      for (int k = 2; k <= n - 1; ++k) lane.push_back({.in = {from(in_port), contribution(k)}, .out = {to(out_port)}});
      lane.push_back({.in = {from(in_port), contribution(n)}, .out = {output(l)}});
      draft.lane(ring.rank_at(p), std::move(lane));
    }
  }
  return std::move(draft).finish();
}

Schedule build_oneshot_reduce_scatter(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("oneshot", Collective::reduce_scatter, shape);
  const int n = shape.ranks;
  Draft draft("oneshot", Collective::reduce_scatter, shape, shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const PairPorts ports(draft, l);
    for (int rank = 0; rank < n; ++rank) {
      Lane lane;
      // Everybody starts with its right neighbour, so that no owner is everybody's first.
      for (int d = 1; d < n; ++d) {
        const int owner = (rank + d) % n;
        lane.push_back({.in = {input(owner * shape.lanes + l)}, .out = {to(ports(rank, owner))}});
      }
      Step reduce{.out = {output(l)}};
      for (int r = 0; r < n; ++r) reduce.in.push_back(r == rank ? input(rank * shape.lanes + l) : from(ports(r, rank)));
      lane.push_back(reduce);
      draft.lane(rank, std::move(lane));
    }
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

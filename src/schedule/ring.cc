// All-reduce on a ring. Each lane is one ring over its own P chunks; even lanes follow Shape::order, odd lanes its
// reverse, so that two lanes load both directions of every link.
//
//   0 -> 1 -> 2 -> 3 -> 0        chunk c starts at position c, collects every rank's contribution on its way round,
//                                is complete at position c - 1, and goes round once more as the result
//
// Steps of the rank at position p: send chunk p; P - 2 times receive, reduce with the own contribution, send; once
// receive, reduce, store, send; P - 2 times receive, store, send; receive, store.
// Rounds 2 (P - 1); bytes sent and received per rank 2 S (P - 1) / P: the least possible. Two slots: with one, every
// rank would wait for its right neighbour to free the only slot.
#include "src/schedule/draft.h"

namespace tutti::schedule {

Schedule build_ring_all_reduce(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("ring", Collective::all_reduce, shape);
  const int n = shape.ranks;
  Draft draft("ring", Collective::all_reduce, shape, n * shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const RingLane ring(draft, l);
    for (int p = 0; p < n; ++p) {
      const int in_port = ring.in_port(p), out_port = ring.out_port(p);
      const auto chunk = [&](int steps_back) { return l * n + ((p - steps_back) % n + n) % n; };
      Lane lane;
      lane.push_back({.in = {input(chunk(0))}, .out = {to(out_port)}});
      for (int k = 1; k <= n - 2; ++k) lane.push_back({.in = {from(in_port), input(chunk(k))}, .out = {to(out_port)}});
      lane.push_back({.in = {from(in_port), input(chunk(n - 1))}, .out = {output(chunk(n - 1)), to(out_port)}});
      for (int k = n; k <= 2 * n - 3; ++k)
        lane.push_back({.in = {from(in_port)}, .out = {output(chunk(k)), to(out_port)}});
      lane.push_back({.in = {from(in_port)}, .out = {output(chunk(2 * n - 2))}});
      draft.lane(ring.rank_at(p), std::move(lane));
    }
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

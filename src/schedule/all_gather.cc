// All-gather on a ring, and in one round. Block b of every output is rank b's input; each block has one chunk per lane.
//
// ring: store and send the own block; P - 2 times receive, store and send on; receive and store. Even lanes follow
// Shape::order, odd lanes its reverse. Rounds P - 1; bytes sent and received per rank S (P - 1) / P. Two slots, as for
// the all-reduce on a ring.
// oneshot: store and publish the own block, once, to all other ranks; receive and store everybody's. Rounds 1; bytes
// published S / P, received S (P - 1) / P. Nobody acknowledges, for the reason that oneshot.cc gives.
#include "src/schedule/draft.h"

namespace tutti::schedule {

Schedule build_ring_all_gather(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("ring", Collective::all_gather, shape);
  const int n = shape.ranks;
  Draft draft("ring", Collective::all_gather, shape, shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const RingLane ring(draft, l);
    for (int p = 0; p < n; ++p) {
      const int in_port = ring.in_port(p), out_port = ring.out_port(p);
      const auto chunk = [&](int steps_back) { return ring.rank_at(p - steps_back) * shape.lanes + l; };
      Lane lane;
      lane.push_back({.in = {input(l)}, .out = {output(chunk(0)), to(out_port)}});
      for (int k = 1; k <= n - 2; ++k) lane.push_back({.in = {from(in_port)}, .out = {output(chunk(k)), to(out_port)}});
      lane.push_back({.in = {from(in_port)}, .out = {output(chunk(n - 1))}});
      draft.lane(ring.rank_at(p), std::move(lane));
    }
  }
  return std::move(draft).finish();
}

Schedule build_oneshot_all_gather(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("oneshot", Collective::all_gather, shape);
  const int n = shape.ranks;
  Draft draft("oneshot", Collective::all_gather, shape, shape.lanes);
  draft.schedule().direct = false;  // nobody says when lent memory has been read
  for (int l = 0; l < shape.lanes; ++l) {
    const int first_port = draft.ports_to_all(l);
    for (int rank = 0; rank < n; ++rank) {
      Lane lane;
      lane.push_back({.in = {input(l)}, .out = {output(rank * shape.lanes + l), to(first_port + rank)}});
      for (int d = 1; d < n; ++d) {
        const int other = (rank + d) % n;
        lane.push_back({.in = {from(first_port + other)}, .out = {output(other * shape.lanes + l)}});
      }
      draft.lane(rank, std::move(lane));
    }
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

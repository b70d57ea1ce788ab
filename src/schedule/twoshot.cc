// All-reduce in two rounds: a direct reduce-scatter, then an all-gather. Each lane has P chunks; rank r owns the r-th.
//
// Steps: send every other owner its chunk of the own input; reduce the own chunk in rank order 0..P-1, store it and
// publish it, once, to all other ranks; receive and store every other owner's result.
// Rounds 2; bytes published per rank S (received 2 S (P - 1) / P; sent 2 S (P - 1) / P where every reader needs its own
// copy). As few bytes as the ring in two rounds, but every rank talks to every other. Wins for middle sizes on one
// host.
//
// Nobody acknowledges: a rank's next message to an owner comes after that owner's result, which was reduced from the
// last; and its next result after every reader's next contribution.
#include "src/schedule/draft.h"

namespace tutti::schedule {

Schedule build_twoshot_all_reduce(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("twoshot", Collective::all_reduce, shape);
  const int n = shape.ranks;
  Draft draft("twoshot", Collective::all_reduce, shape, n * shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const int first_port = draft.ports();
    const auto scatter = [&](int writer, int owner) { return first_port + writer * n + owner - (owner > writer); };
    const auto gather = [&](int owner) { return first_port + owner * n + n - 1; };
    for (int rank = 0; rank < n; ++rank) {
      for (int owner : all_but(n, rank)) draft.port(rank, {owner}, 2 * l, false);
      draft.port(rank, all_but(n, rank), 2 * l + 1, false);
    }
    for (int rank = 0; rank < n; ++rank) {
      Lane lane;
      // Everybody starts with its right neighbour, so that no owner is everybody's first.
      for (int d = 1; d < n; ++d) {
        const int owner = (rank + d) % n;
        lane.push_back({.in = {input(l * n + owner)}, .out = {to(scatter(rank, owner))}});
      }
      Step reduce{.out = {output(l * n + rank), to(gather(rank))}};
      for (int r = 0; r < n; ++r) reduce.in.push_back(r == rank ? input(l * n + rank) : from(scatter(r, rank)));
      lane.push_back(reduce);
      for (int d = 1; d < n; ++d) {
        const int owner = (rank + d) % n;
        lane.push_back({.in = {from(gather(owner))}, .out = {output(l * n + owner)}});
      }
      draft.lane(rank, std::move(lane));
    }
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

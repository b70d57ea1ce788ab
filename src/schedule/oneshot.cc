// All-reduce in one round: everybody reads everybody.
//
// Steps: publish the own input, once, to all other ranks; reduce all ranks' contributions in rank order 0..P-1.
// Rounds 1; bytes published per rank S (sent S (P - 1) where every reader needs its own copy), received S (P - 1),
// reduced P S. The shortest latency there is; wins while S is small.
//
// Nobody acknowledges: a rank publishes message n + 2 only after it has taken message n + 1 of every other rank, which
// each of them published after it had taken message n. So two slots suffice and none is ever waited for.
//
// A barrier is the same with nothing in the messages.
#include "src/schedule/draft.h"

namespace tutti::schedule {
namespace {

Schedule build_oneshot(Collective collective, const Shape& shape, int lanes) {
  if (shape.ranks == 1) return build_copy("oneshot", collective, shape);
  const int n = shape.ranks;
  Draft draft("oneshot", collective, shape, lanes);
  draft.schedule().direct = false;  // nobody says when lent memory has been read
  for (int chunk = 0; chunk < lanes; ++chunk) {
    const int first_port = draft.ports_to_all(chunk);
    for (int rank = 0; rank < n; ++rank) {
      Step reduce{.out = {output(chunk)}};
      for (int r = 0; r < n; ++r) reduce.in.push_back(r == rank ? input(chunk) : from(first_port + r));
      draft.lane(rank, {{.in = {input(chunk)}, .out = {to(first_port + rank)}}, reduce});
    }
  }
  return std::move(draft).finish();
}

}  // namespace

Schedule build_oneshot_all_reduce(const Shape& shape) {
  return build_oneshot(Collective::all_reduce, shape, shape.lanes);
}

Schedule build_oneshot_barrier(const Shape& shape) { return build_oneshot(Collective::barrier, shape, 1); }

}  // namespace tutti::schedule

// All-reduce by recursive halving and doubling. Q is the largest power of two that is at most P; each lane has Q
// chunks.
//
// Steps: a rank beyond the Q-th sends its whole input to a partner among the first Q, who reduces it with its own. Then
// log2 Q times, at distance d = Q/2 ... 1: send the partner (position xor d) its half of the chunks still held, receive
// and reduce the other half, so that position v ends with chunk v complete. Then the same way back, d = 1 ... Q/2:
// exchange what is complete. Last, the extra ranks get the whole result. Every message is one run of consecutive
// chunks. Rounds 2 log2 Q, plus 2 when P is no power of two; bytes sent per rank 2 S (Q - 1) / Q (plus S for the
// partners of extra ranks). The ring's bytes in logarithmic rounds; wins for middle sizes across hosts.
#include <bit>

#include "src/schedule/draft.h"

namespace tutti::schedule {
namespace {

// Ports between the pairs: each direction its own.
struct Pairs {
  std::vector<std::vector<int>> exchange;  // [position][log2 d]: to the partner at distance d
  std::vector<int> fold, unfold;           // [extra]: to its partner, and back
};

Pairs add_ports(Draft& draft, int q, int channel) {
  Pairs pairs;
  for (int v = 0; v < q; ++v) {
    pairs.exchange.emplace_back();
    for (int d = 1; d < q; d *= 2)
      pairs.exchange.back().push_back(draft.port(draft.rank_at(v), {draft.rank_at(v ^ d)}, channel));
  }
  for (int e = 0; e < draft.ranks() - q; ++e) {
    pairs.fold.push_back(draft.port(draft.rank_at(q + e), {draft.rank_at(e)}, channel));
    pairs.unfold.push_back(draft.port(draft.rank_at(e), {draft.rank_at(q + e)}, channel));
  }
  return pairs;
}

Lane core_lane(const Pairs& pairs, int v, int q, int base) {
  const auto i = static_cast<std::size_t>(v);
  const bool folds = i < pairs.fold.size();
  Lane lane;
  bool reduced = false;  // whether the partial result already stands in the output
  const auto held = [&](int chunk) { return reduced ? result(base + chunk) : input(base + chunk); };
  if (folds) {
    lane.push_back({.in = {input(base), from(pairs.fold[i])}, .out = {output(base)}, .chunks = q});
    reduced = true;
  }
  for (int d = q / 2; d >= 1; d /= 2) {
    const auto level = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(d)));
    const int keep = v & ~(d - 1), give = keep ^ d;
    lane.push_back({.in = {held(give)}, .out = {to(pairs.exchange[i][level])}, .chunks = d});
    const int from_partner = pairs.exchange[static_cast<std::size_t>(v ^ d)][level];
    lane.push_back({.in = {held(keep), from(from_partner)}, .out = {output(base + keep)}, .chunks = d});
    reduced = true;
  }
  for (int d = 1; d < q; d *= 2) {
    const auto level = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(d)));
    const int mine = v & ~(d - 1), theirs = mine ^ d;
    lane.push_back({.in = {result(base + mine)}, .out = {to(pairs.exchange[i][level])}, .chunks = d});
    const int from_partner = pairs.exchange[static_cast<std::size_t>(v ^ d)][level];
    lane.push_back({.in = {from(from_partner)}, .out = {output(base + theirs)}, .chunks = d});
  }
  if (folds) lane.push_back({.in = {result(base)}, .out = {to(pairs.unfold[i])}, .chunks = q});
  return lane;
}

}  // namespace

Schedule build_halving_doubling_all_reduce(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("halving_doubling", Collective::all_reduce, shape);
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.ranks)));
  Draft draft("halving_doubling", Collective::all_reduce, shape, q * shape.lanes);
  for (int l = 0; l < shape.lanes; ++l) {
    const int base = l * q;
    const Pairs pairs = add_ports(draft, q, l);
    for (int v = 0; v < q; ++v) draft.lane(draft.rank_at(v), core_lane(pairs, v, q, base));
    for (int e = 0; e < shape.ranks - q; ++e) {
      const auto i = static_cast<std::size_t>(e);
      draft.lane(draft.rank_at(q + e), {{.in = {input(base)}, .out = {to(pairs.fold[i])}, .chunks = q},
                                        {.in = {from(pairs.unfold[i])}, .out = {output(base)}, .chunks = q}});
    }
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

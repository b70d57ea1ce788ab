// Reduce-scatter by recursive halving and all-gather by recursive doubling, for any number of ranks. Each block is one
// chunk, whatever the number of lanes; Shape::order plays no part, since blocks lie in rank order. S is the larger
// buffer. The ranks are split in two halves, these again, and so on (halving.h).
//
// halving: at each split, from that of all ranks down, a rank sends its partner what it holds of all blocks of the
// partner's half, in one message, then receives and reduces what the partner holds of its own half's, until only its
// own block is left. A rank without a partner of its own sends to that of the rank before, who takes two messages.
// Between splits, partial results stand in scratch.
// doubling: the same way back: at each split, from the smallest up, a rank sends its half's blocks, complete, to its
// partner, and receives those of the other half. Who has two partners writes once for both.
// Rounds ceil(log2 P), sometimes one fewer; bytes received per rank about S (P - 1) / P. Few messages: wins
// for small and middle sizes with many ranks, and across hosts.
#include "src/schedule/halving.h"

#include <algorithm>
#include <map>

#include "src/schedule/draft.h"

namespace tutti::schedule {
namespace {

Operand partial(int block) { return Operand::local(Buffer::scratch, block); }
Destination scratch(int block) { return Destination::local(Buffer::scratch, block); }

struct Range {
  int begin = 0, size = 0;
};
Range half_with(const Split& split, int rank) {
  return rank < split.middle ? Range{split.begin, split.middle - split.begin}
                             : Range{split.middle, split.end - split.middle};
}

}  // namespace

std::vector<Split> splits_of(int rank, int ranks) {
  std::vector<Split> splits;
  for (int begin = 0, end = ranks; end - begin > 1;) {
    const Split split{begin, begin + (end - begin + 1) / 2, end};
    splits.push_back(split);
    (rank < split.middle ? end : begin) = split.middle;
  }
  return splits;
}

Schedule build_halving_reduce_scatter(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("halving", Collective::reduce_scatter, shape);
  const int n = shape.ranks;
  Draft draft("halving", Collective::reduce_scatter, shape, 1);
  draft.schedule().scratch_blocks = draft.schedule().scratch_chunks = n;
  std::map<std::pair<int, int>, int> ports;  // by writer and reader: a pair meets at one split only
  for (int rank = 0; rank < n; ++rank)
    for (const Split& split : splits_of(rank, n)) {
      const int reader = split.partner(rank);
      ports[{rank, reader}] = draft.port(rank, {reader});
    }
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<Split> splits = splits_of(rank, n);
    Lane lane;
    bool reduced = false;  // whether partial results stand in scratch already
    const auto held = [&](int block) { return reduced ? partial(block) : input(block); };
    for (const Split& split : splits) {
      const int partner = split.partner(rank);
      const Range give = half_with(split, partner), keep = half_with(split, rank);
      lane.push_back({.in = {held(give.begin)}, .out = {to(ports.at({rank, partner}))}, .chunks = give.size});
      const std::vector<int> writers = split.partners_of(rank);
      if (writers.empty()) continue;  // nothing comes; never at the last split, which is of two or of three
      Step reduce{.in = {held(keep.begin)}, .out = {scratch(keep.begin)}, .chunks = keep.size};
      for (int writer : writers) reduce.in.push_back(from(ports.at({writer, rank})));
      if (&split == &splits.back()) reduce.out = {output(0)};
      lane.push_back(reduce);
      reduced = true;
    }
    draft.lane(rank, std::move(lane));
  }
  return std::move(draft).finish();
}

Schedule build_doubling_all_gather(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("doubling", Collective::all_gather, shape);
  const int n = shape.ranks;
  Draft draft("doubling", Collective::all_gather, shape, 1);
  std::map<std::pair<int, int>, int> ports;  // by writer and reader: a pair meets at one split only
  for (int rank = 0; rank < n; ++rank)
    for (const Split& split : splits_of(rank, n)) {
      const std::vector<int> readers = split.partners_of(rank);
      if (readers.empty()) continue;
      const int port = draft.port(rank, readers);
      for (int reader : readers) ports[{rank, reader}] = port;
    }
  for (int rank = 0; rank < n; ++rank) {
    Lane lane{{.in = {input(0)}, .out = {output(rank)}}};
    std::vector<Split> splits = splits_of(rank, n);
    std::reverse(splits.begin(), splits.end());
    for (const Split& split : splits) {
      const Range mine = half_with(split, rank), theirs = half_with(split, split.partner(rank));
      if (const std::vector<int> readers = split.partners_of(rank); !readers.empty())
        lane.push_back({.in = {result(mine.begin)}, .out = {to(ports.at({rank, readers[0]}))}, .chunks = mine.size});
      const int port = ports.at({split.partner(rank), rank});
      lane.push_back({.in = {from(port)}, .out = {output(theirs.begin)}, .chunks = theirs.size});
    }
    draft.lane(rank, std::move(lane));
  }
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

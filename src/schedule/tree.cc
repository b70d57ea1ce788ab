// All-reduce on a double binary tree. Each of the two trees carries half of the chunks, and a rank is an inner node of
// at most one, so every rank sends and receives about the same.
//
//          3                    0, 2, 4 ... are leaves of this tree        up:   contributions, reduced at every inner
//          node
//        /   \                  and the inner nodes of the other           down: the result, one message to both
//        children
//       1     5
//      / \   / \                .
//     0   2 4   6
//
// Steps per tree: a leaf sends its chunk up; an inner node reduces its own and its children's and sends up; the root
// reduces, stores and sends down in one Step; then every node receives, stores and sends down. The two directions are
// separate lanes, so a node takes the next slice up while this one comes down: trees are pipelined by rounds.
// Rounds 2 D with D = ceil(log2(floor(P/2) + 1)) <= ceil(log2 P), plus one per further slice; an inner node publishes
// S/2 up and S/2 down in its tree and S/2 up as a leaf of the other.
//
// A barrier is the reduction of nothing on the first tree alone.
#include "src/schedule/binary_tree.h"
#include "src/schedule/draft.h"

namespace tutti::schedule {
namespace {

// The Steps of one chunk on one tree.
void reduce_and_broadcast(Draft& draft, const TreeShape& tree, int chunk, int channel) {
  const int n = draft.ranks();
  std::vector<int> up(static_cast<std::size_t>(n), -1), down(static_cast<std::size_t>(n), -1);
  const auto node = [&](int p) -> const TreeNode& { return tree[static_cast<std::size_t>(p)]; };
  for (int p = 0; p < n; ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (node(p).parent >= 0) up[i] = draft.port(draft.rank_at(p), {draft.rank_at(node(p).parent)}, channel);
    std::vector<int> readers;
    for (int child : node(p).children) readers.push_back(draft.rank_at(child));
    if (!readers.empty()) down[i] = draft.port(draft.rank_at(p), readers, channel + 1);
  }
  for (int p = 0; p < n; ++p) {
    const auto i = static_cast<std::size_t>(p);
    const int parent = node(p).parent;
    Step reduce{.in = {input(chunk)}};
    for (int child : node(p).children) reduce.in.push_back(from(up[static_cast<std::size_t>(child)]));
    Step spread{.out = {output(chunk)}};
    if (down[i] >= 0) spread.out.push_back(to(down[i]));
    if (parent < 0) {
      draft.lane(draft.rank_at(p), {{.in = reduce.in, .out = spread.out}});
    } else {
      reduce.out = {to(up[i])};
      spread.in = {from(down[static_cast<std::size_t>(parent)])};
      draft.lane(draft.rank_at(p), {reduce});
      draft.lane(draft.rank_at(p), {spread});
    }
  }
}

}  // namespace

Schedule build_tree_all_reduce(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("tree", Collective::all_reduce, shape);
  Draft draft("tree", Collective::all_reduce, shape, 2 * shape.lanes);
  const TreeShape trees[] = {odd_inner_tree(shape.ranks), even_inner_tree(shape.ranks)};
  // Channels tell the up ports (even) and down ports (odd) of different chunks apart.
  for (int chunk = 0; chunk < 2 * shape.lanes; ++chunk) reduce_and_broadcast(draft, trees[chunk % 2], chunk, 2 * chunk);
  return std::move(draft).finish();
}

Schedule build_tree_barrier(const Shape& shape) {
  if (shape.ranks == 1) return build_copy("tree", Collective::barrier, shape);
  Draft draft("tree", Collective::barrier, shape, 1);
  reduce_and_broadcast(draft, odd_inner_tree(shape.ranks), 0, 0);
  return std::move(draft).finish();
}

}  // namespace tutti::schedule

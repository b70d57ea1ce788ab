// Broadcast on a binary tree, and in one round.
//
// tree: the complete binary tree over Shape::order, turned so that the root stands first. A node sends each slice once,
// to all its children. Rounds floor(log2 P), plus one per further slice: pipelined by rounds.
// oneshot: the root publishes, once, to all other ranks. Rounds 1.
// Bytes published by the root and by every inner node S; sent 2 S on the tree, S (P - 1) in oneshot, where every reader
// needs its own copy.
#include "src/schedule/binary_tree.h"
#include "src/schedule/draft.h"

namespace tutti::schedule {
namespace {

Schedule broadcast_on(std::string_view name, const TreeShape& tree, const Shape& shape) {
  Draft draft(name, Collective::broadcast, shape, shape.lanes);
  const int n = shape.ranks;
  int turn = 0;
  while (draft.rank_at(turn) != shape.root) ++turn;
  const auto rank_of = [&](int position) { return draft.rank_at(position + turn); };
  for (int chunk = 0; chunk < shape.lanes; ++chunk) {
    std::vector<int> down;  // by position
    for (int p = 0; p < n; ++p) {
      const TreeNode& node = tree[static_cast<std::size_t>(p)];
      std::vector<int> readers;
      for (int child : node.children) readers.push_back(rank_of(child));
      down.push_back(readers.empty() ? -1 : draft.port(rank_of(p), readers, chunk));
    }
    for (int p = 0; p < n; ++p) {
      const auto i = static_cast<std::size_t>(p);
      const int parent = tree[i].parent;
      Step step{.in = {parent < 0 ? input(chunk) : from(down[static_cast<std::size_t>(parent)])},
                .out = {output(chunk)}};
      if (down[i] >= 0) step.out.push_back(to(down[i]));
      draft.lane(rank_of(p), {step});
    }
  }
  return std::move(draft).finish();
}

}  // namespace

Schedule build_tree_broadcast(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("tree", Collective::broadcast, shape);
  return broadcast_on("tree", breadth_first_tree(shape.ranks), shape);
}

Schedule build_oneshot_broadcast(const Shape& shape) {
  if (shape.ranks <= 1) return build_copy("oneshot", Collective::broadcast, shape);
  TreeShape flat(static_cast<std::size_t>(shape.ranks));
  for (int p = 1; p < shape.ranks; ++p) {
    flat[static_cast<std::size_t>(p)].parent = 0;
    flat[0].children.push_back(p);
  }
  return broadcast_on("oneshot", flat, shape);
}

}  // namespace tutti::schedule

// Broadcast on a binary tree, along a chain, and in one round.
//
// tree: the complete binary tree over Shape::order, turned so that the root stands first. A node sends each slice once,
// to all its children. Rounds floor(log2 P), plus one per further slice: pipelined by rounds.
// chain: every rank sends to the next in Shape::order, from the root on. Rounds P - 1, plus one per further slice; each
// rank sends and takes every byte once, whatever the number of ranks.
// oneshot: the root publishes, once, to all other ranks. Rounds 1.
// Bytes published by the root and by every inner node S; sent 2 S on the tree, S on the chain, S (P - 1) in oneshot,
// where every reader needs its own copy.
#include "src/schedule/rooted_tree.h"

namespace tutti::schedule {
namespace {

Schedule broadcast_on(std::string_view name, TreeShape (*tree_of)(int ranks), const Shape& shape) {
  if (shape.ranks <= 1) return build_copy(name, Collective::broadcast, shape);
  Draft draft(name, Collective::broadcast, shape, shape.lanes);
  const int n = shape.ranks;
  const RootedTree tree(draft, tree_of(n), shape.root);
  for (int chunk = 0; chunk < shape.lanes; ++chunk) {
    std::vector<int> down;  // by position
    for (int p = 0; p < n; ++p) {
      std::vector<int> readers;
      for (int child : tree.node(p).children) readers.push_back(tree.rank_at(child));
      down.push_back(readers.empty() ? -1 : draft.port(tree.rank_at(p), readers, chunk));
    }
    for (int p = 0; p < n; ++p) {
      const int parent = tree.node(p).parent, own = down[static_cast<std::size_t>(p)];
      Step step{.in = {parent < 0 ? input(chunk) : from(down[static_cast<std::size_t>(parent)])},
                .out = {output(chunk)}};
      if (own >= 0) step.out.push_back(to(own));
      draft.lane(tree.rank_at(p), {step});
    }
  }
  return std::move(draft).finish();
}

}  // namespace

Schedule build_tree_broadcast(const Shape& shape) { return broadcast_on("tree", breadth_first_tree, shape); }
Schedule build_chain_broadcast(const Shape& shape) { return broadcast_on("chain", chain_tree, shape); }
Schedule build_oneshot_broadcast(const Shape& shape) { return broadcast_on("oneshot", flat_tree, shape); }

}  // namespace tutti::schedule

// Reduce to one rank on a binary tree, along a chain, and in one round.
//
// Steps: a leaf sends its input to its parent; an inner node reduces its own with its children's messages, in rank
// order, and sends the result up; the root stores it. Others' outputs are not touched.
// tree: the complete binary tree over Shape::order, turned so that the root stands first. Rounds floor(log2 P), plus
// one per further slice: pipelined by rounds. An inner node takes 2 S and reduces 3 S.
// chain: every rank sends to the one before it in Shape::order, as far as the root. Rounds P - 1, plus one per further
// slice; no rank takes more than S or reduces more than 2 S, whatever the number of ranks.
// oneshot: everybody sends to the root, which reduces in rank order 0..P-1. Rounds 1; the root takes S (P - 1) and
// reduces P S.
// Every rank but the root sends S.
#include <algorithm>

#include "src/schedule/rooted_tree.h"

namespace tutti::schedule {
namespace {

Schedule reduce_on(std::string_view name, TreeShape (*tree_of)(int ranks), const Shape& shape) {
  if (shape.ranks <= 1) return build_copy(name, Collective::reduce, shape);
  Draft draft(name, Collective::reduce, shape, shape.lanes);
  const int n = shape.ranks;
  const RootedTree tree(draft, tree_of(n), shape.root);
  for (int chunk = 0; chunk < shape.lanes; ++chunk) {
    std::vector<int> up{-1};  // by position
    for (int p = 1; p < n; ++p) up.push_back(draft.port(tree.rank_at(p), {tree.rank_at(tree.node(p).parent)}, chunk));
    for (int p = 0; p < n; ++p) {
      std::vector<int> sources = tree.node(p).children;
      sources.push_back(p);
      std::sort(sources.begin(), sources.end(), [&](int a, int b) { return tree.rank_at(a) < tree.rank_at(b); });
      Step step{.out = {p == 0 ? output(chunk) : to(up[static_cast<std::size_t>(p)])}};
      for (int source : sources)
        step.in.push_back(source == p ? input(chunk) : from(up[static_cast<std::size_t>(source)]));
      draft.lane(tree.rank_at(p), {step});
    }
  }
  return std::move(draft).finish();
}

}  // namespace

Schedule build_tree_reduce(const Shape& shape) { return reduce_on("tree", breadth_first_tree, shape); }
Schedule build_chain_reduce(const Shape& shape) { return reduce_on("chain", chain_tree, shape); }
Schedule build_oneshot_reduce(const Shape& shape) { return reduce_on("oneshot", flat_tree, shape); }

}  // namespace tutti::schedule

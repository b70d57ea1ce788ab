// Trees turned so that a root stands first: what the algorithms of rooted collectives share.
#pragma once

#include "src/schedule/binary_tree.h"
#include "src/schedule/draft.h"

namespace tutti::schedule {

// Position 0 of a tree is the root of the Shape, the others follow in Shape::order.
class RootedTree {
 public:
  RootedTree(const Draft& draft, TreeShape tree, int root) : draft_(draft), tree_(std::move(tree)) {
    while (draft.rank_at(turn_) != root) ++turn_;
  }

  const TreeNode& node(int position) const { return tree_[static_cast<std::size_t>(position)]; }
  int rank_at(int position) const { return draft_.rank_at(position + turn_); }

 private:
  const Draft& draft_;
  const TreeShape tree_;
  int turn_ = 0;
};

}  // namespace tutti::schedule

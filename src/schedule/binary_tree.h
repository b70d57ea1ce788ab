// The shapes of trees, apart from what is sent along them. Positions are 0..n-1; builders map them to ranks.
#pragma once

#include <vector>

namespace tutti::schedule {

struct TreeNode {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};

using TreeShape = std::vector<TreeNode>;  // by position

// A binary tree in which every inner node stands at an odd position (and so every leaf but the odd ones at an even
// position): the odd positions form a search tree of least depth, the even positions hang below it as leaves. Its depth
// is at most ceil(log2 n).
TreeShape odd_inner_tree(int n);

// Its twin with all inner nodes at even positions: mirrored for even n, shifted by one for odd n. No position is an
// inner node of both.
TreeShape even_inner_tree(int n);

// The complete binary tree in breadth-first order: position 0 is the root, the parent of p is (p - 1) / 2.
TreeShape breadth_first_tree(int n);

// Position 0 is the parent of all others.
TreeShape flat_tree(int n);

// The parent of p is p - 1.
TreeShape chain_tree(int n);

}  // namespace tutti::schedule

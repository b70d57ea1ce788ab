#include "src/schedule/binary_tree.h"

namespace tutti::schedule {
namespace {

std::size_t at(int position) { return static_cast<std::size_t>(position); }

void link(TreeShape& tree, int parent, int child) {
  tree[at(child)].parent = parent;
  tree[at(parent)].children.push_back(child);
}

// Builds the subtree over positions [begin, end), begin even, and returns its root. The odd positions in the range,
// begin + 1, begin + 3, ..., are split at the middle one.
int build_range(TreeShape& tree, int begin, int end) {
  const int inner = (end - begin) / 2;
  if (inner == 0) return begin;
  const int root = begin + 1 + 2 * (inner / 2);
  link(tree, root, build_range(tree, begin, root));
  if (root + 1 < end) link(tree, root, build_range(tree, root + 1, end));
  return root;
}

// The same tree with every position p renamed to map(p).
template <class Map>
TreeShape renamed(const TreeShape& tree, Map map) {
  TreeShape result(tree.size());
  for (int p = 0; p < static_cast<int>(tree.size()); ++p)
    for (int child : tree[at(p)].children) link(result, map(p), map(child));
  return result;
}

}  // namespace

TreeShape odd_inner_tree(int n) {
  TreeShape tree(at(n));
  build_range(tree, 0, n);
  return tree;
}

TreeShape even_inner_tree(int n) {
  if (n % 2 == 0) return renamed(odd_inner_tree(n), [n](int p) { return n - 1 - p; });
  return renamed(odd_inner_tree(n), [n](int p) { return (p + 1) % n; });
}

TreeShape breadth_first_tree(int n) {
  TreeShape tree(at(n));
  for (int p = 1; p < n; ++p) link(tree, (p - 1) / 2, p);
  return tree;
}

TreeShape flat_tree(int n) {
  TreeShape tree(at(n));
  for (int p = 1; p < n; ++p) link(tree, 0, p);
  return tree;
}

TreeShape chain_tree(int n) {
  TreeShape tree(at(n));
  for (int p = 1; p < n; ++p) link(tree, p - 1, p);
  return tree;
}

}  // namespace tutti::schedule

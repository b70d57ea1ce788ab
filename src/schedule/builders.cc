#include "src/schedule/builders.h"

#include <algorithm>
#include <bit>

#include "src/schedule/halving.h"

namespace tutti::schedule {
namespace {

int floor_log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }
bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

double nothing(int) { return 0; }
double once(int n) { return n > 1 ? 1 : 0; }
double to_each(int n) { return n - 1; }
double share_of_others(int n) { return (n - 1.0) / n; }  // every block but the own
double share_of_one(int n) { return once(n) / n; }
double twice_share_of_others(int n) { return 2 * (n - 1.0) / n; }
int one_round(int n) { return n > 1 ? 1 : 0; }

constexpr Cost kRing{[](int n) { return 2 * (n - 1); }, twice_share_of_others, twice_share_of_others,
                     twice_share_of_others, twice_share_of_others};

// The busiest rank is an inner node below the root of one tree, and a leaf of the other; with 2 or 3 ranks a root.
int double_tree_rounds(int n) { return 2 * ceil_log2(n / 2 + 1); }
double double_tree_published(int n) { return n < 4 ? once(n) : 1.5; }
double double_tree_bytes(int n) { return n < 4 ? n / 2.0 * once(n) : 2; }
double double_tree_reduced(int n) { return n < 3 ? once(n) : 1.5; }

constexpr Cost kTree{double_tree_rounds, double_tree_published, double_tree_bytes, double_tree_bytes,
                     double_tree_reduced};

constexpr Cost kOneshot{one_round, once, to_each, to_each, [](int n) { return n * once(n); }};

constexpr Cost kTwoshot{[](int n) { return 2 * one_round(n); }, once, twice_share_of_others, twice_share_of_others,
                        once};

int halving_doubling_rounds(int n) { return 2 * floor_log2(n) + (is_power_of_two(n) ? 0 : 2); }
double halving_doubling_bytes(int n) {
  return twice_share_of_others(1 << floor_log2(n)) + (is_power_of_two(n) ? 0 : 1);
}
double halving_doubling_reduced(int n) {
  return twice_share_of_others(1 << floor_log2(n)) + (is_power_of_two(n) ? 0 : 2);
}

constexpr Cost kHalvingDoubling{halving_doubling_rounds, halving_doubling_bytes, halving_doubling_bytes,
                                halving_doubling_bytes, halving_doubling_reduced};

constexpr Cost kTreeBroadcast{floor_log2, once, [](int n) { return std::min(n - 1.0, 2.0); }, once, nothing};

constexpr Cost kOneshotBroadcast{one_round, once, to_each, once, nothing};

constexpr Cost kChainBroadcast{[](int n) { return n - 1; }, once, once, once, nothing};

constexpr Cost kTreeReduce{floor_log2, once, once, [](int n) { return std::min(n - 1.0, 2.0); },
                           [](int n) { return std::min<double>(n, 3) * once(n); }};

constexpr Cost kChainReduce{[](int n) { return n - 1; }, once, once, once, [](int n) { return 2 * once(n); }};

constexpr Cost kOneshotReduce{one_round, once, once, to_each, [](int n) { return n * once(n); }};

constexpr Cost kRingReduceScatter{[](int n) { return n - 1; }, share_of_others, share_of_others, share_of_others,
                                  twice_share_of_others};

constexpr Cost kOneshotReduceScatter{one_round, share_of_others, share_of_others, share_of_others, once};

// What the busiest rank moves, by what each rank moves at each of its splits, in blocks.
template <class OfSplit>
double busiest(int n, OfSplit blocks) {
  int most = 0;
  for (int rank = 0; rank < n; ++rank) {
    int sum = 0;
    for (const Split& split : splits_of(rank, n)) sum += blocks(split, rank);
    most = std::max(most, sum);
  }
  return static_cast<double>(most) / n;
}
int own_half(const Split& split, int rank) {
  return rank < split.middle ? split.middle - split.begin : split.end - split.middle;
}
int partners(const Split& split, int rank) { return static_cast<int>(split.partners_of(rank).size()); }

double halving_sent(int n) {
  return busiest(n, [](const Split& split, int rank) { return split.end - split.begin - own_half(split, rank); });
}
double halving_received(int n) {
  return busiest(n, [](const Split& split, int rank) { return own_half(split, rank) * partners(split, rank); });
}
double halving_reduced(int n) {
  return busiest(n, [](const Split& split, int rank) {
    const int others = partners(split, rank);
    return others > 0 ? own_half(split, rank) * (1 + others) : 0;
  });
}
double doubling_published(int n) {
  return busiest(n, [](const Split& split, int rank) { return partners(split, rank) > 0 ? own_half(split, rank) : 0; });
}

// The longest chain of messages, split by split. Who takes nothing at one has nothing to wait for at the next, so that
// there are sometimes fewer than splits.
int split_rounds(int n, bool halving) {
  std::vector<std::vector<Split>> splits;
  for (int rank = 0; rank < n; ++rank) splits.push_back(splits_of(rank, n));
  const std::size_t depths = splits[0].size();
  std::vector<int> chain(splits.size());  // of each rank, before the splits of a depth
  for (std::size_t turn = 0; turn < depths; ++turn) {
    const std::size_t depth = halving ? turn : depths - 1 - turn;
    std::vector<int> next = chain;
    for (std::size_t rank = 0; rank < splits.size(); ++rank) {
      if (depth >= splits[rank].size()) continue;
      const auto partner = static_cast<std::size_t>(splits[rank][depth].partner(static_cast<int>(rank)));
      int& reached = next[halving ? partner : rank];
      reached = std::max(reached, chain[halving ? rank : partner] + 1);
    }
    chain = std::move(next);
  }
  return *std::max_element(chain.begin(), chain.end());
}
int halving_rounds(int n) { return split_rounds(n, true); }
int doubling_rounds(int n) { return split_rounds(n, false); }

constexpr Cost kHalvingReduceScatter{halving_rounds, halving_sent, halving_sent, halving_received, halving_reduced};

// Who receives from several in the one sends to them in the other.
constexpr Cost kDoublingAllGather{doubling_rounds, doubling_published, halving_received, halving_sent, nothing};

constexpr Cost kOneshotAllToAll{one_round, share_of_others, share_of_others, share_of_others, nothing};

constexpr Cost kOneshotGather{one_round, share_of_one, share_of_one, share_of_others, nothing};

constexpr Cost kOneshotScatter{one_round, share_of_others, share_of_others, share_of_one, nothing};

constexpr Cost kRingAllGather{[](int n) { return n - 1; }, share_of_others, share_of_others, share_of_others, nothing};

constexpr Cost kOneshotAllGather{one_round, share_of_one, share_of_others, share_of_others, nothing};

constexpr Cost kOneshotBarrier{one_round, nothing, nothing, nothing, nothing};
constexpr Cost kTreeBarrier{double_tree_rounds, nothing, nothing, nothing, nothing};

constexpr Builder kBuilders[] = {
    {"ring", Collective::all_reduce, build_ring_all_reduce, 2, false,
     "reduce-scatter then all-gather around a ring; least bytes, 2 (P - 1) rounds", kRing},
    {"tree", Collective::all_reduce, build_tree_all_reduce, 1, false,
     "double binary tree, pipelined; about 2 log2 P rounds at nearly full bandwidth", kTree},
    {"oneshot", Collective::all_reduce, build_oneshot_all_reduce, 2, false,
     "everybody reads everybody and reduces alone; one round, for small messages", kOneshot},
    {"twoshot", Collective::all_reduce, build_twoshot_all_reduce, 2, false,
     "direct reduce-scatter, then all-gather; two rounds, every rank talks to every other", kTwoshot},
    {"halving_doubling", Collective::all_reduce, build_halving_doubling_all_reduce, 1, false,
     "recursive halving, then doubling; 2 log2 P rounds with the ring's bytes", kHalvingDoubling},
    {"tree", Collective::broadcast, build_tree_broadcast, 1, true,
     "binary tree from the root, pipelined; log2 P rounds", kTreeBroadcast},
    {"chain", Collective::broadcast, build_chain_broadcast, 1, true,
     "from rank to rank along a chain, pipelined; every rank moves each byte once", kChainBroadcast},
    {"oneshot", Collective::broadcast, build_oneshot_broadcast, 1, true,
     "the root writes once, everybody reads it; one round", kOneshotBroadcast},
    {"ring", Collective::all_gather, build_ring_all_gather, 2, false,
     "blocks travel around a ring; P - 1 rounds between neighbours only", kRingAllGather},
    {"oneshot", Collective::all_gather, build_oneshot_all_gather, 2, false,
     "every rank writes its block once, everybody reads it; one round", kOneshotAllGather},
    {"doubling", Collective::all_gather, build_doubling_all_gather, 1, false,
     "halves exchange all they have, ever larger ones; log2 P rounds, for any number of ranks", kDoublingAllGather},
    {"oneshot", Collective::barrier, build_oneshot_barrier, 2, false, "every rank tells every other; one round",
     kOneshotBarrier},
    {"tree", Collective::barrier, build_tree_barrier, 1, false,
     "up a binary tree and down again; about 2 log2 P rounds, few messages", kTreeBarrier},
    {"tree", Collective::reduce, build_tree_reduce, 1, true, "up a binary tree to the root, pipelined; log2 P rounds",
     kTreeReduce},
    {"chain", Collective::reduce, build_chain_reduce, 1, true,
     "from rank to rank along a chain, pipelined; every rank moves each byte once", kChainReduce},
    {"oneshot", Collective::reduce, build_oneshot_reduce, 1, true,
     "everybody sends to the root, which reduces alone; one round", kOneshotReduce},
    {"ring", Collective::reduce_scatter, build_ring_reduce_scatter, 2, false,
     "partial results travel around a ring; P - 1 rounds between neighbours only", kRingReduceScatter},
    {"oneshot", Collective::reduce_scatter, build_oneshot_reduce_scatter, 1, false,
     "every rank sends every other its block; one round", kOneshotReduceScatter},
    {"halving", Collective::reduce_scatter, build_halving_reduce_scatter, 1, false,
     "halves exchange what the other needs, ever smaller ones; log2 P rounds, for any number of ranks",
     kHalvingReduceScatter},
    {"oneshot", Collective::all_to_all, build_oneshot_all_to_all, 1, false,
     "every rank sends every other its block; one round", kOneshotAllToAll},
    {"oneshot", Collective::gather, build_oneshot_gather, 1, true, "everybody sends its block to the root; one round",
     kOneshotGather},
    {"oneshot", Collective::scatter, build_oneshot_scatter, 1, true, "the root sends everybody its block; one round",
     kOneshotScatter},
};

}  // namespace

std::span<const Builder> builders() { return kBuilders; }

const Builder* find_builder(Collective collective, std::string_view name) {
  const auto found = std::find_if(std::begin(kBuilders), std::end(kBuilders), [&](const Builder& builder) {
    return builder.collective == collective && builder.name == name;
  });
  return found == std::end(kBuilders) ? nullptr : found;
}

std::string builder_names(Collective collective) {
  std::string names;
  for (const Builder& builder : kBuilders)
    if (builder.collective == collective) names += (names.empty() ? "" : ", ") + std::string(builder.name);
  return names;
}

}  // namespace tutti::schedule

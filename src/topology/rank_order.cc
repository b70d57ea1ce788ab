#include "src/topology/rank_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tutti::topology {
namespace {

int last_if_unknown(int index) { return index < 0 ? std::numeric_limits<int>::max() : index; }

auto position_in_host(const RankPlace& place) {
  return std::tuple(last_if_unknown(place.package), last_if_unknown(place.numa), last_if_unknown(place.l3),
                    last_if_unknown(place.core));
}

// The allowed cores, neighbours in hardware next to each other.
std::vector<int> cores_by_place(const Topology& topology) {
  std::vector<int> cores = allowed_cores(topology);
  std::stable_sort(cores.begin(), cores.end(), [&](int a, int b) {
    const Core& left = topology.cores[static_cast<std::size_t>(a)];
    const Core& right = topology.cores[static_cast<std::size_t>(b)];
    return std::tuple(left.package, left.numa, left.l3) < std::tuple(right.package, right.numa, right.l3);
  });
  return cores;
}

void keep_if_equal(int& common, int value, bool first) {
  if (first) common = value;
  if (common != value) common = -1;
}

}  // namespace

std::vector<int> order_ranks(const std::vector<RankPlace>& places) {
  std::map<int, std::size_t> lowest_rank;  // of each host
  for (std::size_t rank = 0; rank < places.size(); ++rank) lowest_rank.try_emplace(places[rank].host, rank);
  std::vector<int> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const RankPlace& left = places[static_cast<std::size_t>(a)];
    const RankPlace& right = places[static_cast<std::size_t>(b)];
    if (left.host != right.host) return lowest_rank.at(left.host) < lowest_rank.at(right.host);
    return position_in_host(left) < position_in_host(right);
  });
  return order;
}

RankPlace here(const Topology& topology) {
  const std::vector<int> mine = allowed_pus();
  RankPlace place;
  bool first = true;
  for (std::size_t index = 0; index < topology.cores.size(); ++index) {
    const Core& core = topology.cores[index];
    const bool allowed = std::any_of(core.pus.begin(), core.pus.end(),
                                     [&](int pu) { return std::binary_search(mine.begin(), mine.end(), pu); });
    if (!allowed) continue;
    keep_if_equal(place.package, core.package, first);
    keep_if_equal(place.numa, core.numa, first);
    keep_if_equal(place.l3, core.l3, first);
    keep_if_equal(place.core, static_cast<int>(index), first);
    first = false;
  }
  return place;
}

RankPlace here() { return here(detect()); }

int usable_cores(const std::vector<Standing>& ranks) {
  std::map<std::vector<int>, int> usable_of;  // a set of cores -> how many of them at once
  std::set<int> all;
  for (const Standing& rank : ranks) {
    int& usable = usable_of[rank.cores];
    usable = std::max(usable, rank.usable_cores);
    all.insert(rank.cores.begin(), rank.cores.end());
  }
  usable_of.try_emplace({all.begin(), all.end()}, static_cast<int>(all.size()));
  double crowded = 0;  // ranks per core
  for (const auto& [cores, usable] : usable_of) {
    const auto inside = std::count_if(ranks.begin(), ranks.end(), [&cores = cores](const Standing& rank) {
      return std::includes(cores.begin(), cores.end(), rank.cores.begin(), rank.cores.end());
    });
    crowded = std::max(crowded, static_cast<double>(inside) / std::max(1, usable));
  }
  return ranks.empty() ? 1 : std::max(1, static_cast<int>(static_cast<double>(ranks.size()) / crowded));
}

std::vector<int> share_of_pus(const Topology& topology, int index, int ranks) {
  const std::vector<int> cores = cores_by_place(topology);
  const auto count = static_cast<std::int64_t>(cores.size());
  std::int64_t begin = index % std::max<std::int64_t>(1, count);
  std::int64_t end = begin + 1;
  if (ranks <= count) {
    begin = index * count / ranks;
    end = (index + 1) * count / ranks;
  }
  std::vector<int> pus;
  for (std::int64_t i = begin; i < end && i < count; ++i) {
    const Core& core = topology.cores[static_cast<std::size_t>(cores[static_cast<std::size_t>(i)])];
    const std::vector<int>& own = core.allowed_pus.empty() ? core.pus : core.allowed_pus;
    pus.insert(pus.end(), own.begin(), own.end());
  }
  std::sort(pus.begin(), pus.end());
  return pus;
}

}  // namespace tutti::topology

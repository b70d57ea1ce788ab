#include "src/planner/world.h"

#include <algorithm>
#include <map>

#include "tutti/error.h"

namespace tutti::planner {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, "planner: " + what); }

}  // namespace

int World::ranks_of_fullest_host() const {
  if (host_of_rank.empty()) return ranks;
  std::map<int, int> count;
  int fullest = 0;
  for (int host : host_of_rank) fullest = std::max(fullest, ++count[host]);
  return fullest;
}

double World::ranks_per_core() const {
  return cores_per_host <= 0 ? 1.0 : std::max(1.0, static_cast<double>(ranks_of_fullest_host()) / cores_per_host);
}

void check(const World& world) {
  const auto size = static_cast<std::size_t>(std::max(world.ranks, 0));
  if (world.ranks < 1) refuse(std::to_string(world.ranks) + " ranks; there must be at least 1");
  if (!world.host_of_rank.empty() && world.host_of_rank.size() != size)
    refuse("host_of_rank has " + std::to_string(world.host_of_rank.size()) + " entries for " +
           std::to_string(world.ranks) + " ranks");
  if (!world.order.empty()) {
    std::vector<int> sorted = world.order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted.size() != size || sorted[i] != static_cast<int>(i))
        refuse("order is no permutation of the ranks 0.." + std::to_string(world.ranks - 1));
  }
}

}  // namespace tutti::planner

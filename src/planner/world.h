// What a planner needs to know, exchanged between the ranks at connect so that it is identical on all of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/planner/profile.h"

namespace tutti::planner {

struct World {
  int ranks = 1;
  std::vector<int> host_of_rank;  // empty: all on one host
  int cores_per_host = 0;         // cores that the ranks of the fullest host may use; 0: one for each rank
  std::vector<int> order;         // ranks in the order of rings and trees, from the topology; empty: 0, 1, 2, ...
  std::size_t buffer_limit = std::size_t{64} << 20;  // bytes of slot memory of one rank (TUTTI_BUFFER_LIMIT)
  std::string forced_algorithm;                      // TUTTI_ALGO's value; empty: the planner chooses
  Profile profile;

  bool crosses_hosts(int a, int b) const {
    return !host_of_rank.empty() &&
           host_of_rank[static_cast<std::size_t>(a)] != host_of_rank[static_cast<std::size_t>(b)];
  }
  friend bool operator==(const World&, const World&) = default;
  int ranks_of_fullest_host() const;
  // Ranks that share one core of the fullest host; 1 when each has its own.
  double ranks_per_core() const;
};

// Throws Error(invalid_argument) that names the field when the facts contradict each other.
void check(const World& world);

}  // namespace tutti::planner

// How much slot memory every rank uses, as all ranks reckon it alike: they meet the same plans in the same order, so
// they come to the same answer at the same operation, without a message.
#pragma once

#include <cstddef>
#include <unordered_set>
#include <vector>

#include "src/planner/plan.h"
#include "src/runtime/ring.h"

namespace tutti::runtime {

class SlotBudget {
 public:
  // `limit` bytes, which is what pairs leave of the buffer limit, and `rings` rings a rank. domain[r]: ranks of equal
  // domain share memory; to all others a ring takes memory at the reader as well.
  SlotBudget(std::size_t limit, std::size_t rings, std::vector<int> domain);

  // Adds the slots of the plan's new ports; false, and nothing added, when some rank has no room for them. A plan
  // always fits an empty budget: the planner has seen to it.
  bool add(const planner::Plan& plan, std::uint32_t generation);
  void clear();

 private:
  struct Use {
    std::size_t bytes = 0;     // of rings it writes
    std::size_t received = 0;  // of rings in which messages from elsewhere arrive
    std::size_t rings = 0;
  };

  std::size_t limit_;
  std::size_t rings_;
  std::vector<int> domain_;
  std::vector<Use> use_;  // by rank
  std::unordered_set<PortId> known_;
};

}  // namespace tutti::runtime

#include "src/runtime/slot_budget.h"

#include "src/runtime/arena.h"
#include "src/runtime/compiled.h"

namespace tutti::runtime {

SlotBudget::SlotBudget(std::size_t limit, std::size_t rings, std::vector<int> domain)
    : limit_(limit), rings_(rings), domain_(std::move(domain)), use_(domain_.size()) {}

bool SlotBudget::add(const planner::Plan& plan, std::uint32_t generation) {
  std::vector<Use> use = use_;
  std::vector<PortId> fresh;
  for (const schedule::Port& port : plan.schedule->ports) {
    const RingGeometry geometry = ring_geometry(port, plan.slots, plan.slot_bytes);
    const PortId id = port_id(*plan.schedule, port, geometry, generation);
    if (known_.contains(id)) continue;
    fresh.push_back(id);
    const auto writer = static_cast<std::size_t>(port.writer);
    use[writer].bytes += arena_bytes(geometry);
    ++use[writer].rings;
    for (const int reader : port.readers)
      if (domain_[static_cast<std::size_t>(reader)] != domain_[writer])
        use[static_cast<std::size_t>(reader)].received += arena_bytes(geometry);
  }
  if (!known_.empty())
    for (const Use& rank : use)
      if (rank.bytes > limit_ || rank.received > limit_ || rank.rings > rings_) return false;
  use_ = std::move(use);
  known_.insert(fresh.begin(), fresh.end());
  return true;
}

void SlotBudget::clear() {
  use_.assign(use_.size(), {});
  known_.clear();
}

}  // namespace tutti::runtime

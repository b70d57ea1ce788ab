// What waits for what in one round of a Schedule: its Steps as nodes, and edges from a Step to those that need it (the
// next of its lane, those that name it in `after`, the readers of its message). Planner, simulator and renderers walk
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

struct StepId {
  std::int32_t rank = 0;
  std::int32_t lane = 0;
  std::int32_t step = 0;
  friend constexpr bool operator==(const StepId&, const StepId&) = default;
};

class StepGraph {
 public:
  struct Edge {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int32_t port = -1;  // the port of the message; -1: both Steps are of one rank
    bool crosses_ranks() const { return port >= 0; }
  };

  // Keeps a reference to the schedule. Throws Error(invalid_argument) that names rank, lane, step or port when an index
  // is out of range, or when a port's sends and the receives of one of its readers differ in number.
  explicit StepGraph(const Schedule& schedule);
  explicit StepGraph(Schedule&&) = delete;

  const Schedule& schedule() const { return *schedule_; }
  std::int32_t size() const { return static_cast<std::int32_t>(ids_.size()); }
  StepId id(std::int32_t node) const { return ids_[static_cast<std::size_t>(node)]; }
  const Step& step(std::int32_t node) const;
  std::int32_t node(StepId id) const;  // nodes are numbered by rank, lane and step

  std::span<const Edge> successors(std::int32_t node) const;
  std::int32_t predecessors(std::int32_t node) const { return predecessors_[static_cast<std::size_t>(node)]; }

  // Every node after all of its predecessors. Throws Error(invalid_argument) that names a Step of a circle, if any.
  std::vector<std::int32_t> order() const;

 private:
  void pair_messages(std::vector<Edge>& edges) const;

  const Schedule* schedule_;
  std::vector<StepId> ids_;
  std::vector<std::vector<std::int32_t>> first_of_lane_;  // [rank][lane]: node of its Step 0
  std::vector<Edge> edges_;                               // sorted by `from`
  std::vector<std::size_t> first_edge_;                   // per node, and one more
  std::vector<std::int32_t> predecessors_;
};

}  // namespace tutti::schedule

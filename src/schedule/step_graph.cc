#include "src/schedule/step_graph.h"

#include <algorithm>
#include <string>

#include "tutti/error.h"

namespace tutti::schedule {
namespace {

[[noreturn]] void refuse(const Schedule& schedule, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "schedule '" + schedule.name + "': " + what);
}

std::string words(StepId id) {
  return "rank " + std::to_string(id.rank) + ", lane " + std::to_string(id.lane) + ", step " + std::to_string(id.step);
}

}  // namespace

StepGraph::StepGraph(const Schedule& schedule) : schedule_(&schedule) {
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    auto& firsts = first_of_lane_.emplace_back();
    for (const Lane& lane : schedule.programs[rank].lanes) {
      const auto lane_number = static_cast<std::int32_t>(firsts.size());
      firsts.push_back(size());
      for (std::size_t step = 0; step < lane.size(); ++step)
        ids_.push_back({static_cast<std::int32_t>(rank), lane_number, static_cast<std::int32_t>(step)});
    }
  }

  std::vector<Edge> edges;
  for (std::int32_t to = 0; to < size(); ++to) {
    const StepId target = id(to);
    if (target.step > 0) edges.push_back({to - 1, to});
    for (const Dependency& before : step(to).after) {
      const auto& lanes = schedule.programs[static_cast<std::size_t>(target.rank)].lanes;
      if (before.lane < 0 || static_cast<std::size_t>(before.lane) >= lanes.size() || before.step < 0 ||
          static_cast<std::size_t>(before.step) >= lanes[static_cast<std::size_t>(before.lane)].size())
        refuse(schedule, words(target) + " waits for lane " + std::to_string(before.lane) + ", step " +
                             std::to_string(before.step) + ", which does not exist");
      edges.push_back({node({target.rank, before.lane, before.step}), to});
    }
  }
  pair_messages(edges);

  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
  edges_ = std::move(edges);
  predecessors_.assign(ids_.size(), 0);
  first_edge_.assign(ids_.size() + 1, 0);
  for (const Edge& edge : edges_) {
    ++predecessors_[static_cast<std::size_t>(edge.to)];
    ++first_edge_[static_cast<std::size_t>(edge.from) + 1];
  }
  for (std::size_t i = 1; i < first_edge_.size(); ++i) first_edge_[i] += first_edge_[i - 1];
}

// The n-th send of a port is the n-th receive of every reader.
void StepGraph::pair_messages(std::vector<Edge>& edges) const {
  const Schedule& schedule = *schedule_;
  const std::size_t ports = schedule.ports.size();
  std::vector<std::vector<std::int32_t>> sends(ports);                  // [port]: nodes in order
  std::vector<std::vector<std::vector<std::int32_t>>> receives(ports);  // [port][reader]: nodes in order
  for (std::size_t port = 0; port < ports; ++port) receives[port].resize(schedule.ports[port].readers.size());

  const auto check_port = [&](StepId at, std::int32_t port) {
    if (port < 0 || static_cast<std::size_t>(port) >= ports)
      refuse(schedule, words(at) + " uses port " + std::to_string(port) + " of " + std::to_string(ports));
    return static_cast<std::size_t>(port);
  };
  for (std::int32_t at = 0; at < size(); ++at) {
    for (const Operand& operand : step(at).in) {
      if (operand.kind != Operand::Kind::recv) continue;
      const std::size_t port = check_port(id(at), operand.index);
      const auto& readers = schedule.ports[port].readers;
      const auto reader = std::find(readers.begin(), readers.end(), id(at).rank);
      if (reader == readers.end()) refuse(schedule, words(id(at)) + " is no reader of port " + std::to_string(port));
      receives[port][static_cast<std::size_t>(reader - readers.begin())].push_back(at);
    }
    for (const Destination& destination : step(at).out) {
      if (destination.kind != Destination::Kind::send) continue;
      const std::size_t port = check_port(id(at), destination.index);
      if (schedule.ports[port].writer != id(at).rank)
        refuse(schedule, words(id(at)) + " is not the writer of port " + std::to_string(port));
      sends[port].push_back(at);
    }
  }
  for (std::size_t port = 0; port < ports; ++port)
    for (std::size_t reader = 0; reader < receives[port].size(); ++reader) {
      const auto& taken = receives[port][reader];
      if (taken.size() != sends[port].size())
        refuse(schedule, "port " + std::to_string(port) + " of rank " + std::to_string(schedule.ports[port].writer) +
                             " sends " + std::to_string(sends[port].size()) + " messages, of which rank " +
                             std::to_string(schedule.ports[port].readers[reader]) + " takes " +
                             std::to_string(taken.size()));
      for (std::size_t n = 0; n < taken.size(); ++n)
        edges.push_back({sends[port][n], taken[n], static_cast<std::int32_t>(port)});
    }
}

const Step& StepGraph::step(std::int32_t node) const {
  const StepId at = id(node);
  return schedule_->programs[static_cast<std::size_t>(at.rank)]
      .lanes[static_cast<std::size_t>(at.lane)][static_cast<std::size_t>(at.step)];
}

std::int32_t StepGraph::node(StepId id) const {
  return first_of_lane_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)] + id.step;
}

std::span<const StepGraph::Edge> StepGraph::successors(std::int32_t node) const {
  const std::size_t first = first_edge_[static_cast<std::size_t>(node)];
  return std::span(edges_).subspan(first, first_edge_[static_cast<std::size_t>(node) + 1] - first);
}

std::vector<std::int32_t> StepGraph::order() const {
  std::vector<std::int32_t> waiting = predecessors_;
  std::vector<std::int32_t> sorted;
  sorted.reserve(ids_.size());
  for (std::int32_t at = 0; at < size(); ++at)
    if (waiting[static_cast<std::size_t>(at)] == 0) sorted.push_back(at);
  for (std::size_t done = 0; done < sorted.size(); ++done)
    for (const Edge& edge : successors(sorted[done]))
      if (--waiting[static_cast<std::size_t>(edge.to)] == 0) sorted.push_back(edge.to);
  if (sorted.size() != ids_.size()) {
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](std::int32_t left) { return left > 0; });
    refuse(*schedule_, words(id(static_cast<std::int32_t>(stuck - waiting.begin()))) + " waits for itself");
  }
  return sorted;
}

}  // namespace tutti::schedule

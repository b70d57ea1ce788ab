#include "src/planner/machine.h"

#include "src/topology/topology.h"

namespace tutti::planner {
namespace {

std::string number_of(int count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Machine this_machine() {
  const topology::Topology machine = topology::detect(topology::Devices::skip);
  const std::string cpu = machine.packages.empty() ? "" : machine.packages.front().model;
  return {machine.hostname, cpu, static_cast<int>(machine.cores.size()), static_cast<int>(machine.numa_nodes.size()),
          TUTTI_VERSION};
}

bool alike(const Machine& a, const Machine& b) {
  return a.cpu == b.cpu && a.cores == b.cores && a.numa_nodes == b.numa_nodes && a.library == b.library;
}

std::string in_words(const Machine& machine) {
  return (machine.cpu.empty() ? "unknown CPU" : machine.cpu) + ", " + number_of(machine.cores, "core") + ", " +
         number_of(machine.numa_nodes, "NUMA node") + ", Tutti " + machine.library +
         (machine.host.empty() ? "" : " (" + machine.host + ")");
}

}  // namespace tutti::planner

#include "src/topology/topology.h"

#include <algorithm>
#include <cmath>

namespace tutti::topology {

const char* name_of(DeviceKind kind) { return kind == DeviceKind::gpu ? "gpu" : "network"; }

std::vector<int> allowed_cores(const Topology& topology) {
  std::vector<int> allowed;
  std::vector<int> all;
  for (std::size_t core = 0; core < topology.cores.size(); ++core) {
    all.push_back(static_cast<int>(core));
    if (!topology.cores[core].allowed_pus.empty()) allowed.push_back(static_cast<int>(core));
  }
  return allowed.empty() ? all : allowed;
}

int usable_cores(std::size_t allowed_cores, const std::optional<double>& cpu_quota) {
  double usable = static_cast<double>(allowed_cores);
  if (cpu_quota) usable = std::min(usable, std::ceil(*cpu_quota));
  return std::max(1, static_cast<int>(usable));
}

int usable_cores(const Topology& topology) { return usable_cores(allowed_cores(topology).size(), topology.cpu_quota); }

int usable_pus() { return usable_cores(allowed_pus().size(), cpu_quota()); }

}  // namespace tutti::topology

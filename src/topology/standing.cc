// Where the calling thread runs, from the lists of PUs in sysfs ("0-3,8"): hwloc reads the whole machine and loads its
// plugins, which made up half of the time to connect.
#include <algorithm>
#include <fstream>
#include <set>

#include "src/topology/rank_order.h"

namespace tutti::topology {
namespace {

// The numbers of a list in a file, ascending; none when there is no such file or it holds something else.
std::vector<int> list_in(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return parse_ranges(line);
}

// The lowest of `group`, its number, when all of `pus` are in it; else -1.
int if_within(const std::vector<int>& pus, const std::vector<int>& group) {
  return !group.empty() && std::includes(group.begin(), group.end(), pus.begin(), pus.end()) ? group.front() : -1;
}

// The PUs that share the level-3 cache of the PU with this folder; none when there is no such cache.
std::vector<int> sharers_of_l3(const std::string& folder) {
  for (int index = 0;; ++index) {
    const std::string cache = folder + "/cache/index" + std::to_string(index);
    const std::vector<int> level = list_in(cache + "/level");
    if (level.empty()) return {};
    if (level.front() == 3) return list_in(cache + "/shared_cpu_list");
  }
}

// The NUMA node of all the PUs, or -1.
int numa_of(const std::string& system, const std::vector<int>& pus) {
  for (const int node : list_in(system + "/node/online"))
    if (if_within(pus, list_in(system + "/node/node" + std::to_string(node) + "/cpulist")) >= 0) return node;
  return -1;
}

}  // namespace

std::optional<Standing> read_standing(const std::string& system, const std::vector<int>& pus,
                                      const std::optional<double>& cpu_quota) {
  if (pus.empty()) return std::nullopt;
  const auto folder = [&](int pu) { return system + "/cpu/cpu" + std::to_string(pu); };
  Standing standing;
  std::set<int> counted;
  for (const int pu : pus) {
    if (counted.count(pu) != 0) continue;
    const std::vector<int> siblings = list_in(folder(pu) + "/topology/thread_siblings_list");
    if (!std::binary_search(siblings.begin(), siblings.end(), pu)) return std::nullopt;
    counted.insert(siblings.begin(), siblings.end());
    standing.cores.push_back(siblings.front());
  }
  std::sort(standing.cores.begin(), standing.cores.end());
  const std::string first = folder(pus.front());
  const std::vector<int> package = list_in(first + "/topology/core_siblings_list");
  if (package.empty()) return std::nullopt;
  standing.place = {0, if_within(pus, package), numa_of(system, pus), if_within(pus, sharers_of_l3(first)),
                    if_within(pus, list_in(first + "/topology/thread_siblings_list"))};
  standing.usable_cores = usable_cores(standing.cores.size(), cpu_quota);
  return standing;
}

Standing standing() {
  if (const auto read = read_standing("/sys/devices/system", allowed_pus(), cpu_quota())) return *read;
  const Topology machine = detect(Devices::skip);
  std::vector<int> cores;
  for (const int core : allowed_cores(machine)) {
    const std::vector<int>& pus = machine.cores[static_cast<std::size_t>(core)].pus;
    cores.push_back(pus.empty() ? core : pus.front());
  }
  std::sort(cores.begin(), cores.end());
  return {here(machine), cores, usable_cores(machine)};
}

}  // namespace tutti::topology

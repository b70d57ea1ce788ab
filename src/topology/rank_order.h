// Which rank sits where, and the order of ranks on rings and trees that follows from it. Pure functions but for here()
// and standing().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/topology/topology.h"

namespace tutti::topology {

// Where a rank runs. -1: it may run on more than one, or unknown. The numbers tell the packages, ... of one host apart
// and sort neighbours together; they are the same for all ranks of a host.
struct RankPlace {
  int host = 0;  // the caller numbers the hosts
  int package = -1;
  int numa = -1;
  int l3 = -1;
  int core = -1;

  bool operator==(const RankPlace&) const = default;
};

// The ranks in the order in which a ring passes them: position -> rank. The ranks of a host are neighbours, hosts come
// in the order of their lowest rank; within a host by package, NUMA node, L3 and core (-1 last), then by rank.
std::vector<int> order_ranks(const std::vector<RankPlace>& places);

// Where the calling thread may run, as far as its affinity mask pins it down; host is 0.
RankPlace here(const Topology& topology);
RankPlace here();

// What a rank tells the others of where it runs.
struct Standing {
  RankPlace place;
  std::vector<int> cores;  // on which it may run, ascending; each goes by the number of its lowest PU
  int usable_cores = 1;    // fewer than those where a CPU quota says so
};

// Of the calling thread, for connecting: read from sysfs in a fraction of a millisecond, where detect() takes several;
// by detect() where sysfs does not say.
Standing standing();

// The same for a thread that may run on `pus` (ascending), as `system` (/sys/devices/system) describes the machine;
// nothing when it leaves a question open. Packages, caches and cores are numbered by their lowest PU.
std::optional<Standing> read_standing(const std::string& system, const std::vector<int>& pus,
                                      const std::optional<double>& cpu_quota);

// How many cores the ranks of one host would have if all were as crowded as the most crowded of them; at least 1. That
// are those who share a set of cores and nothing beyond it: of ranks bound to a core each, the ones on the fullest
// core.
int usable_cores(const std::vector<Standing>& ranks);

// The PUs for the index-th of `ranks` ranks of a host, all bound: a run of neighbouring allowed cores each, sizes
// differing by at most one; when there are fewer cores than ranks, one core each, dealt round robin.
std::vector<int> share_of_pus(const Topology& topology, int index, int ranks);

}  // namespace tutti::topology

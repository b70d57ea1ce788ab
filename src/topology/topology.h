// What hardware this machine has: plain data, filled by detect() (detect_hwloc.cc) and later by readers of topology
// files. Indices (package, numa, l3, core) count from 0 in the vectors below and are the same for every process of a
// host, however it is bound; PU numbers are the operating system's.
//
// PU: processing unit, what the scheduler runs one thread on. Core: the PUs that share one set of execution units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::topology {

struct Core {
  int package = 0;
  int numa = 0;  // nearest memory
  int l3 = -1;   // the n-th level-3 cache; -1: none known
  std::vector<int> pus;
  std::vector<int> allowed_pus;  // those of `pus` on which the detecting thread may run
};

struct Package {
  std::string model;  // empty: unknown
  std::vector<int> cores;
};

struct NumaNode {
  int os_index = 0;
  std::uint64_t memory_bytes = 0;  // 0: unknown
  std::vector<int> cores;          // may be empty (memory without cores)
};

struct Cache {
  int level = 1;  // data or unified caches only
  std::uint64_t bytes = 0;
  std::vector<int> cores;  // that share it
};

enum class DeviceKind { gpu, network };
const char* name_of(DeviceKind kind);

struct Device {
  DeviceKind kind = DeviceKind::gpu;
  std::uint16_t pci_class = 0;  // base class and subclass, 0x0302
  std::uint16_t vendor_id = 0;
  std::uint16_t device_id = 0;
  std::string class_name;               // "3D", "Ethernet"
  std::string vendor;                   // empty: unknown
  std::string model;                    // empty: unknown
  std::string bus_id;                   // "0000:3b:00.0"
  int numa = -1;                        // -1: not nearer to one node than to another, or unknown
  double link_gb_per_s = 0;             // of its PCI link as it runs now, 10^9 bytes per second; 0: unknown
  std::vector<std::string> interfaces;  // what the operating system calls it: "eth0", "mlx5_0"
};

struct Topology {
  std::string hostname;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<Cache> caches;  // by level, then by first core
  std::vector<Core> cores;
  std::vector<Device> devices;
  std::optional<double> cpu_quota;  // CPUs' worth of time the control groups grant; nothing: no limit
  std::vector<std::string> notes;   // what could not be found out, and what was assumed instead
};

// Whether to look for PCI devices too, which takes most of the time of a detection.
enum class Devices { skip, find };

// Looks at this machine. Costs milliseconds, with devices tens of them; binds nothing and touches no device. Does not
// throw for what it cannot read: the result is then smaller and a note says so. There is always at least one core.
Topology detect(Devices devices = Devices::find);

// The cores with at least one allowed PU, in order. Never empty: if none is known to be allowed, all are.
std::vector<int> allowed_cores(const Topology& topology);

// How many ranks can compute at the same time: the allowed cores, but not more than the quota rounded up; at least 1.
int usable_cores(const Topology& topology);
int usable_cores(std::size_t allowed_cores, const std::optional<double>& cpu_quota);

// The same question in PUs, without detection (one or two system calls and the control group's files).
int usable_pus();

// The PUs on which the calling thread may run; empty when the system does not say.
std::vector<int> allowed_pus();

// The tightest CPU quota on the way from this process's control group to the root, versions 1 and 2; nothing when there
// is no limit. The first form reads /proc/self/cgroup and /sys/fs/cgroup.
std::optional<double> cpu_quota();
std::optional<double> cpu_quota(const std::string& cgroup_file, const std::string& mount_point);

// The group in which the kernel shares out this process's CPU time: a control group with the CPU controller, else what
// autogrouping has made of its session. Who gives up a core (sched_yield) leaves it to threads of the same group only.
// The second form is told where /proc and the control groups are mounted.
std::string scheduling_group();
std::string scheduling_group(const std::string& proc, const std::string& mount_point);

// For people: package > NUMA node > L3 > cores, then devices and notes; every line ends with a newline.
std::string to_text(const Topology& topology);

// "0-3,8" for {0, 1, 2, 3, 8}, and back: the numbers in ascending order, none where the text is anything else.
std::string format_ranges(const std::vector<int>& sorted);
std::vector<int> parse_ranges(const std::string& text);

}  // namespace tutti::topology

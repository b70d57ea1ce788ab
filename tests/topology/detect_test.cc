#include <sched.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "src/topology/rank_order.h"
#include "src/topology/topology.h"

using namespace tutti::topology;

namespace {

// Makes hwloc describe another machine while it lives.
class SyntheticMachine {
 public:
  explicit SyntheticMachine(const char* description) { setenv("HWLOC_SYNTHETIC", description, 1); }
  ~SyntheticMachine() { unsetenv("HWLOC_SYNTHETIC"); }
};

// A directory that ends with the test.
class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_topology_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Directory() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  Directory(Directory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

cpu_set_t mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
  return set;
}

}  // namespace

TEST_CASE("detection describes this machine and leaves the binding alone") {
  const cpu_set_t before = mask();
  const Topology machine = detect();
  const cpu_set_t after = mask();
  CHECK(CPU_EQUAL(&before, &after));

  std::size_t allowed = 0;
  for (const Core& core : machine.cores) allowed += core.allowed_pus.size();
  CHECK(allowed == static_cast<std::size_t>(CPU_COUNT(&before)));
  CHECK(usable_cores(machine) >= 1);
  CHECK(usable_cores(machine) <= static_cast<int>(machine.cores.size()));
  CHECK(usable_pus() <= CPU_COUNT(&before));
  for (const Core& core : machine.cores) {
    CHECK(core.package < static_cast<int>(machine.packages.size()));
    CHECK(core.numa < static_cast<int>(machine.numa_nodes.size()));
  }
  CHECK_THAT(to_text(machine), Catch::Contains("core 0") || Catch::Contains("cores 0-"));
}

TEST_CASE("a thread bound to one PU is at that core, and detection still sees the others") {
  const cpu_set_t before = mask();
  const Topology machine = detect();
  const int index = allowed_cores(machine).back();
  const Core& core = machine.cores[static_cast<std::size_t>(index)];
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core.allowed_pus.front()), &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  const RankPlace found = here();
  const Topology bound = detect();
  const int usable = usable_cores(bound);
  const int pus = usable_pus();
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);

  CHECK(found == RankPlace{0, core.package, core.numa, core.l3, index});
  CHECK(bound.cores.size() == machine.cores.size());
  CHECK(usable == 1);
  CHECK(pus == 1);
  if (allowed_cores(machine).size() > 1) CHECK(here(machine).core == -1);
}

TEST_CASE("packages, NUMA nodes, caches and cores of a larger machine are told apart") {
  const SyntheticMachine other("pack:2 numa:2 l3:2 core:3 pu:2");
  const Topology machine = detect();
  REQUIRE(machine.cores.size() == 24);
  CHECK(machine.packages.size() == 2);
  CHECK(machine.numa_nodes.size() == 4);
  CHECK(machine.packages[1].cores == std::vector<int>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(machine.numa_nodes[1].cores == std::vector<int>{6, 7, 8, 9, 10, 11});
  CHECK(machine.cores[10].package == 0);
  CHECK(machine.cores[10].numa == 1);
  CHECK(machine.cores[10].l3 == 3);
  CHECK(machine.cores[10].pus == std::vector<int>{20, 21});
  int third_level = 0;
  for (const Cache& cache : machine.caches) third_level += cache.level == 3;
  CHECK(third_level == 8);
  CHECK(machine.notes.size() == 1);
  CHECK_THAT(to_text(machine), Catch::Contains("2 packages, 4 NUMA nodes, 24 cores") &&
                                   Catch::Contains("L3 3 (16 MiB): cores 9-11 (PUs 18-23)"));
}

TEST_CASE("a machine without cores, caches and packages is still a machine") {
  const SyntheticMachine other("pu:1");
  const Topology machine = detect();
  REQUIRE(machine.cores.size() == 1);
  CHECK(machine.cores[0].package == 0);
  CHECK(machine.cores[0].l3 == -1);
  CHECK(machine.packages.size() == 1);
  CHECK(machine.numa_nodes.size() == 1);
  CHECK(usable_cores(machine) == 1);
}

TEST_CASE("usable cores are the allowed ones, limited by the quota rounded up") {
  Topology machine;
  for (int core = 0; core < 8; ++core) machine.cores.push_back({0, 0, -1, {core}, {core}});
  CHECK(usable_cores(machine) == 8);
  machine.cpu_quota = 2.5;
  CHECK(usable_cores(machine) == 3);
  machine.cpu_quota = 0.1;
  CHECK(usable_cores(machine) == 1);
  machine.cpu_quota = 100;
  CHECK(usable_cores(machine) == 8);
  machine.cores[3].allowed_pus = {};
  CHECK(usable_cores(machine) == 7);
  CHECK(usable_cores(Topology{}) == 1);
}

TEST_CASE("the tightest quota on the way to the root counts, in both versions of control groups") {
  const Directory directory;
  const std::string self = directory.write("self", "0::/jobs/one\n");
  CHECK(cpu_quota(self, directory.path()) == std::nullopt);
  directory.write("jobs/one/cpu.max", "max 100000\n");
  CHECK(cpu_quota(self, directory.path()) == std::nullopt);
  directory.write("jobs/cpu.max", "150000 100000\n");
  CHECK(cpu_quota(self, directory.path()) == 1.5);
  directory.write("jobs/one/cpu.max", "400000 100000\n");
  CHECK(cpu_quota(self, directory.path()) == 1.5);
  directory.write("cpu.max", "50000 100000\n");
  CHECK(cpu_quota(self, directory.path()) == 0.5);

  const std::string other = directory.write("other", "5:memory:/x\n4:cpu,cpuacct:/deep/er\n0::/nowhere\n");
  CHECK(cpu_quota(other, directory.path() + "/v1") == std::nullopt);
  directory.write("v1/cpu,cpuacct/deep/cpu.cfs_quota_us", "-1\n");
  directory.write("v1/cpu,cpuacct/deep/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(other, directory.path() + "/v1") == std::nullopt);
  directory.write("v1/cpu,cpuacct/deep/cpu.cfs_quota_us", "300000\n");
  CHECK(cpu_quota(other, directory.path() + "/v1") == 3.0);
  CHECK(cpu_quota(directory.path() + "/missing", directory.path()) == std::nullopt);
  CHECK(cpu_quota(directory.write("garbage", "cpu\n:\n0\n"), directory.path()) == std::nullopt);
}

TEST_CASE("numbers are printed as ranges") {
  CHECK(format_ranges({}).empty());
  CHECK(format_ranges({3}) == "3");
  CHECK(format_ranges({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
}

TEST_CASE("the scheduling group is the nearest control group with weights, else the session's own") {
  const Directory proc, groups;
  const auto group = [&] { return scheduling_group(proc.path(), groups.path()); };
  CHECK(group().empty());
  proc.write("self/cgroup", "0::/jobs/one\n");
  proc.write("self/autogroup", "/autogroup-17 nice 0\n");
  CHECK(group().empty());
  proc.write("sys/kernel/sched_autogroup_enabled", "0\n");
  CHECK(group().empty());
  proc.write("sys/kernel/sched_autogroup_enabled", "1\n");
  CHECK(group() == " /autogroup-17");
  groups.write("jobs/cpu.weight", "100\n");
  CHECK(group() == " /jobs");
  groups.write("jobs/one/cpu.weight", "100\n");
  CHECK(group() == " /jobs/one");
  proc.write("self/cgroup", "3:memory:/m\n1:cpu:/two/\n");
  CHECK(group() == " /autogroup-17");
  groups.write("cpu/two/cpu.shares", "1024\n");
  CHECK(group() == " /two");
  proc.write("self/cgroup", "cpu\n::\n0::\n");
  CHECK(group() == " /autogroup-17");
}

namespace {

// A machine's sysfs: `cores` cores of two PUs (PU n and PU n + cores), two packages, an L3 cache for two cores each.
Directory system_of(int cores) {
  Directory system;
  const auto list = [cores](int first, int last) {
    const auto range = [](int a, int b) {
      return a == b ? std::to_string(a) : std::to_string(a) + "-" + std::to_string(b);
    };
    return range(first, last) + "," + range(first + cores, last + cores) + "\n";
  };
  system.write("node/online", "0-1\n");
  for (int package = 0; package < 2; ++package)
    system.write("node/node" + std::to_string(package) + "/cpulist",
                 list(package * cores / 2, (package + 1) * cores / 2 - 1));
  for (int pu = 0; pu < 2 * cores; ++pu) {
    const std::string folder = "cpu/cpu" + std::to_string(pu);
    const int core = pu % cores, package = core / (cores / 2);
    system.write(folder + "/topology/thread_siblings_list", list(core, core));
    system.write(folder + "/topology/core_siblings_list", list(package * cores / 2, (package + 1) * cores / 2 - 1));
    system.write(folder + "/cache/index0/level", "1\n");
    system.write(folder + "/cache/index0/shared_cpu_list", list(core, core));
    system.write(folder + "/cache/index1/level", "3\n");
    system.write(folder + "/cache/index1/shared_cpu_list", list(core / 2 * 2, core / 2 * 2 + 1));
  }
  return system;
}

}  // namespace

TEST_CASE("where a thread stands, from sysfs: what its mask lies within has a number, what it goes beyond has none") {
  const Directory system = system_of(8);
  const auto at = [&](const std::vector<int>& pus, std::optional<double> quota = {}) {
    const auto found = read_standing(system.path(), pus, quota);
    REQUIRE(found.has_value());
    return *found;
  };
  CHECK(at({5}).place == RankPlace{0, 4, 1, 4, 5});
  CHECK(at({5, 13}).place == RankPlace{0, 4, 1, 4, 5});
  CHECK(at({5, 13}).usable_cores == 1);
  CHECK(at({4, 5}).place == RankPlace{0, 4, 1, 4, -1});
  CHECK(at({4, 5}).usable_cores == 2);
  CHECK(at({1, 2}).place == RankPlace{0, 0, 0, -1, -1});
  CHECK(at({3, 4, 11}).place == RankPlace{0, -1, -1, -1, -1});
  CHECK(at({3, 4, 11}).usable_cores == 2);
  CHECK(at({0, 1, 2, 3}, 1.5).usable_cores == 2);
}

TEST_CASE("a sysfs that leaves a question open gives nothing, and the machine's own agrees with hwloc") {
  const Directory system = system_of(2);
  CHECK_FALSE(read_standing(system.path(), {}, {}).has_value());
  CHECK_FALSE(read_standing(system.path(), {7}, {}).has_value());
  for (const char* const bad : {"", "x", "1-", "3-2", "-1", "0,,1", "0-99999999"}) {
    INFO(bad);
    system.write("cpu/cpu0/topology/core_siblings_list", bad);
    CHECK_FALSE(read_standing(system.path(), {0}, {}).has_value());
  }
  const Topology machine = detect(Devices::skip);
  const Standing mine = standing();
  const RankPlace by_hwloc = here(machine);
  CHECK(mine.usable_cores == usable_cores(machine));
  CHECK((mine.place.package >= 0) == (by_hwloc.package >= 0));
  CHECK((mine.place.core >= 0) == (by_hwloc.core >= 0));
}

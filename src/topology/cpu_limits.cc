// What the operating system lets this process use: the affinity mask and the control groups' CPU quota.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "src/topology/topology.h"

namespace tutti::topology {
namespace {

void take_minimum(std::optional<double>& tightest, double quota, double period) {
  if (quota <= 0 || period <= 0) return;  // version 1 writes -1 for "no limit"
  const double cpus = quota / period;
  if (!tightest || cpus < *tightest) tightest = cpus;
}

std::optional<double> read_number(const std::string& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

void read_directory(std::optional<double>& tightest, const std::string& directory) {
  std::ifstream in(directory + "/cpu.max");  // version 2: "max 100000" or "150000 100000"
  double quota = 0;
  double period = 0;
  if (in >> quota >> period) take_minimum(tightest, quota, period);
  const auto quota_v1 = read_number(directory + "/cpu.cfs_quota_us");
  const auto period_v1 = read_number(directory + "/cpu.cfs_period_us");
  if (quota_v1 && period_v1) take_minimum(tightest, *quota_v1, *period_v1);
}

// From `path` below `root` up to `root` itself. In a container the path may not exist below the mount point; its own
// control group is then what is mounted at the root.
void read_upwards(std::optional<double>& tightest, const std::string& root, std::string path) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    read_directory(tightest, root + path);
    if (path.empty()) return;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

std::string below(std::string folder, const std::string& name) { return folder.append("/").append(name); }

bool has_cpu_controller(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

std::vector<int> allowed_pus() {
  std::vector<int> pus;
  for (int limit = 1024; limit <= (1 << 20); limit *= 4) {  // the mask must be as wide as the kernel's
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(limit));
    if (mask == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(limit));
    CPU_ZERO_S(bytes, mask);
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    for (int pu = 0; known && pu < limit; ++pu)
      if (CPU_ISSET_S(static_cast<std::size_t>(pu), bytes, mask)) pus.push_back(pu);
    CPU_FREE(mask);
    if (known) break;
  }
  return pus;
}

// Lines of the file are "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
std::optional<double> cpu_quota(const std::string& cgroup_file, const std::string& mount_point) {
  std::optional<double> tightest;
  std::ifstream in(cgroup_file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      read_upwards(tightest, mount_point, path);
      read_upwards(tightest, mount_point + "/unified", path);
    } else if (has_cpu_controller(controllers)) {
      read_upwards(tightest, below(mount_point, controllers), path);
      if (controllers != "cpu") read_upwards(tightest, mount_point + "/cpu", path);
    }
  }
  return tightest;
}

namespace {

// The nearest directory from `path` up to below the root of `mount_point` in which the CPU controller is at work.
std::string weighed_directory(const std::string& mount_point, std::string path) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (path.empty()) return path;
    const std::string folder = mount_point + path;
    if (std::ifstream(folder + "/cpu.weight") || std::ifstream(folder + "/cpu.shares")) return path;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

std::string scheduling_group(const std::string& proc, const std::string& mount_point) {
  std::array<char, 64> space{};  // containers have name spaces of their own, in which their group is the root
  const ssize_t length = ::readlink((proc + "/self/ns/cgroup").c_str(), space.data(), space.size() - 1);
  std::string group = length > 0 ? space.data() : "";
  std::ifstream in(proc + "/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_cpu_controller(controllers)) continue;
    const std::string mount = controllers.empty() ? mount_point : below(mount_point, controllers);
    const std::string weighed = weighed_directory(mount, line.substr(second + 1));
    if (!weighed.empty()) return group.append(" ").append(weighed);
  }
  std::ifstream enabled(proc + "/sys/kernel/sched_autogroup_enabled");
  int on = 0;
  std::string session;
  if (enabled >> on && on == 1 && std::ifstream(proc + "/self/autogroup") >> session) group.append(" ").append(session);
  return group;
}

std::string scheduling_group() { return scheduling_group("/proc", "/sys/fs/cgroup"); }

std::optional<double> cpu_quota() { return cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"); }

}  // namespace tutti::topology

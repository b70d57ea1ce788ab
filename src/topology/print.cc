// A Topology as text for people.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "src/base/env.h"
#include "src/topology/topology.h"

namespace tutti::topology {
namespace {

std::string bytes(std::uint64_t count) { return base::format_bytes(static_cast<std::size_t>(count)); }

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "cores 0-3 (PUs 0-7)", with what this process may not use.
std::string describe_cores(const Topology& topology, const std::vector<int>& cores) {
  std::vector<int> pus;
  std::vector<int> forbidden;
  for (const int index : cores) {
    const Core& core = topology.cores[static_cast<std::size_t>(index)];
    pus.insert(pus.end(), core.pus.begin(), core.pus.end());
    for (const int pu : core.pus)
      if (std::find(core.allowed_pus.begin(), core.allowed_pus.end(), pu) == core.allowed_pus.end())
        forbidden.push_back(pu);
  }
  std::sort(pus.begin(), pus.end());
  std::sort(forbidden.begin(), forbidden.end());
  std::string text = (cores.size() == 1 ? "core " : "cores ") + format_ranges(cores) + " (" +
                     (pus.size() == 1 ? "PU " : "PUs ") + format_ranges(pus);
  if (!forbidden.empty()) text += "; not for this process: " + format_ranges(forbidden);
  return text + ")";
}

// "L1 32 KiB, L2 512 KiB (2 cores)": the levels below the third that the first of `cores` sees.
std::string describe_small_caches(const Topology& topology, const std::vector<int>& cores) {
  std::string text;
  for (const Cache& cache : topology.caches) {
    if (cache.level >= 3 || std::find(cache.cores.begin(), cache.cores.end(), cores.front()) == cache.cores.end())
      continue;
    text += ", L" + std::to_string(cache.level) + " " + bytes(cache.bytes) +
            (cache.cores.size() > 1 ? " shared by " + plural(cache.cores.size(), "core") : " each");
  }
  return text;
}

std::string describe_l3(const Topology& topology, int l3) {
  int seen = 0;
  for (const Cache& cache : topology.caches)
    if (cache.level == 3 && seen++ == l3) return "L3 " + std::to_string(l3) + " (" + bytes(cache.bytes) + ")";
  return "no L3 known";
}

void print_package(std::string& text, const Topology& topology, std::size_t index) {
  const Package& package = topology.packages[index];
  text += "  package " + std::to_string(index) + (package.model.empty() ? "" : ": " + package.model) + "\n";
  std::map<int, std::map<int, std::vector<int>>> by_numa_and_l3;
  for (const int core : package.cores) {
    const Core& at = topology.cores[static_cast<std::size_t>(core)];
    by_numa_and_l3[at.numa][at.l3].push_back(core);
  }
  for (const auto& [numa, by_l3] : by_numa_and_l3) {
    const NumaNode& node = topology.numa_nodes[static_cast<std::size_t>(numa)];
    text += "    NUMA node " + std::to_string(numa) +
            (node.memory_bytes == 0 ? "" : " (" + bytes(node.memory_bytes) + ")") + "\n";
    for (const auto& [l3, cores] : by_l3)
      text += "      " + describe_l3(topology, l3) + ": " + describe_cores(topology, cores) +
              describe_small_caches(topology, cores) + "\n";
  }
}

void print_device(std::string& text, const Device& device) {
  text += "  " + std::string(name_of(device.kind)) + " " + device.bus_id + ": ";
  const std::string model = device.vendor + (device.vendor.empty() || device.model.empty() ? "" : " ") + device.model;
  text += model.empty() ? format("vendor %04x device %04x", device.vendor_id, device.device_id) : model;
  text += " [" + device.class_name + "]";
  if (device.numa >= 0) text += ", NUMA node " + std::to_string(device.numa);
  if (device.link_gb_per_s > 0) text += format(", PCI link %.1f GB/s", device.link_gb_per_s);
  for (const std::string& interface : device.interfaces) text += ", " + interface;
  text += "\n";
}

}  // namespace

std::string format_ranges(const std::vector<int>& sorted) {
  std::string text;
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (begin > 0) text += ',';
    text += std::to_string(sorted[begin]);
    if (end - begin > 1) text.append("-").append(std::to_string(sorted[end - 1]));
    begin = end;
  }
  return text;
}

std::vector<int> parse_ranges(const std::string& text) {
  constexpr int kMost = 1 << 20;
  std::set<int> numbers;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int first = -1, last = -1;
    const char* const end = part.data() + part.size();
    auto parsed = std::from_chars(part.data(), end, first);
    last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec != std::errc() || parsed.ptr != end || first < 0 || last < first || last >= kMost) return {};
    for (int number = first; number <= last; ++number) numbers.insert(number);
  }
  return {numbers.begin(), numbers.end()};
}

std::string to_text(const Topology& topology) {
  std::string text = (topology.hostname.empty() ? "this machine" : topology.hostname) + ": " +
                     plural(topology.packages.size(), "package") + ", " +
                     plural(topology.numa_nodes.size(), "NUMA node") + ", " + plural(topology.cores.size(), "core") +
                     "; usable by this process: " + plural(static_cast<std::size_t>(usable_cores(topology)), "core");
  if (topology.cpu_quota) text += format(" (CPU quota %.2f)", *topology.cpu_quota);
  text += "\n";
  for (std::size_t index = 0; index < topology.packages.size(); ++index) print_package(text, topology, index);
  for (std::size_t node = 0; node < topology.numa_nodes.size(); ++node)
    if (topology.numa_nodes[node].cores.empty())
      text += "  NUMA node " + std::to_string(node) + " without cores (" +
              bytes(topology.numa_nodes[node].memory_bytes) + ")\n";
  for (const Device& device : topology.devices) print_device(text, device);
  for (const std::string& note : topology.notes) text += "  note: " + note + "\n";
  return text;
}

}  // namespace tutti::topology

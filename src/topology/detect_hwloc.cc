// Detection through hwloc. The plugins that would open devices (CUDA, NVML, OpenCL, ...) stay out: detection also runs
// in launchers that fork. PUs that this process may not use are kept, so that all processes of a host number alike.
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "src/base/error.h"
#include "src/topology/topology.h"

namespace tutti::topology {
namespace {

using Loaded = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Null, with a note, when hwloc cannot read this machine.
Loaded load(std::vector<std::string>& notes, Devices devices) {
  Loaded none(nullptr, hwloc_topology_destroy);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    notes.push_back("hwloc cannot start (" + base::errno_text() + ")");
    return none;
  }
  Loaded loaded(raw, hwloc_topology_destroy);
  for (const char* plugin : {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  if (devices == Devices::find) hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                                    HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  if (hwloc_topology_load(raw) != 0) {
    notes.push_back("hwloc cannot read this machine (" + base::errno_text() + ")");
    return none;
  }
  return loaded;
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* text = hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? "" : text;
}

int index_of_ancestor(hwloc_topology_t hwloc, hwloc_obj_type_t type, hwloc_obj_t object, int otherwise) {
  const hwloc_obj_t ancestor = hwloc_get_ancestor_obj_by_type(hwloc, type, object);
  return ancestor == nullptr ? otherwise : static_cast<int>(ancestor->logical_index);
}

// The only NUMA node that `nodes` names, or the first of several, or `otherwise`.
int first_numa(hwloc_topology_t hwloc, hwloc_const_nodeset_t nodes, int otherwise) {
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    if (nodes != nullptr && hwloc_bitmap_isset(nodes, node->os_index)) return static_cast<int>(node->logical_index);
  return otherwise;
}

std::vector<int> pus_of(hwloc_obj_t object) {
  std::vector<int> pus;
  for (int pu = hwloc_bitmap_first(object->cpuset); pu >= 0; pu = hwloc_bitmap_next(object->cpuset, pu))
    pus.push_back(pu);
  return pus;
}

// hwloc's Core objects, or its PUs where the system knows no cores.
std::vector<hwloc_obj_t> core_objects(hwloc_topology_t hwloc) {
  std::vector<hwloc_obj_t> objects;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(hwloc, type, core)) != nullptr;)
      objects.push_back(core);
    if (!objects.empty()) break;
  }
  return objects;
}

void add_cores(Topology& topology, hwloc_topology_t hwloc) {
  for (const hwloc_obj_t object : core_objects(hwloc)) {
    Core core;
    core.package = index_of_ancestor(hwloc, HWLOC_OBJ_PACKAGE, object, 0);
    core.numa = first_numa(hwloc, object->nodeset, 0);
    core.l3 = index_of_ancestor(hwloc, HWLOC_OBJ_L3CACHE, object, -1);
    core.pus = pus_of(object);
    topology.cores.push_back(core);
  }
}

void add_packages_and_memory(Topology& topology, hwloc_topology_t hwloc) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, object)) != nullptr;)
    topology.packages.push_back({info(object, "CPUModel"), {}});
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, object)) != nullptr;)
    topology.numa_nodes.push_back({static_cast<int>(object->os_index), object->attr->numanode.local_memory, {}});
}

void add_caches(Topology& topology, hwloc_topology_t hwloc) {
  const std::vector<hwloc_obj_t> cores = core_objects(hwloc);
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(hwloc, type, object)) != nullptr;) {
      Cache cache;
      cache.level = static_cast<int>(object->attr->cache.depth);
      cache.bytes = object->attr->cache.size;
      for (std::size_t core = 0; core < cores.size(); ++core)
        if (hwloc_bitmap_intersects(cores[core]->cpuset, object->cpuset)) cache.cores.push_back(static_cast<int>(core));
      topology.caches.push_back(cache);
    }
  }
}

std::optional<DeviceKind> kind_of(std::uint16_t pci_class) {
  const int base_class = pci_class >> 8;
  if (base_class == 0x03 || base_class == 0x12) return DeviceKind::gpu;  // display, processing accelerator
  if (base_class == 0x02) return DeviceKind::network;
  return std::nullopt;
}

// The PCI classes that matter here, as the PCI ID list names them.
std::string class_name(std::uint16_t pci_class) {
  switch (pci_class) {
    case 0x0200: return "Ethernet";
    case 0x0207: return "InfiniBand";
    case 0x0208: return "fabric";
    case 0x0300: return "VGA";
    case 0x0302: return "3D";
    case 0x0380: return "display";
    case 0x1200: return "processing accelerator";
    default: return (pci_class >> 8) == 0x02 ? "network" : (pci_class >> 8) == 0x03 ? "display" : "accelerator";
  }
}

void add_devices(Topology& topology, hwloc_topology_t hwloc) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_pcidev(hwloc, object)) != nullptr;) {
    const auto& pci = object->attr->pcidev;
    const std::optional<DeviceKind> kind = kind_of(pci.class_id);
    if (!kind) continue;
    Device device;
    device.kind = *kind;
    device.pci_class = pci.class_id;
    device.vendor_id = pci.vendor_id;
    device.device_id = pci.device_id;
    device.class_name = class_name(pci.class_id);
    device.vendor = info(object, "PCIVendor");
    device.model = info(object, "PCIDevice");
    std::array<char, 32> bus_id{};
    std::snprintf(bus_id.data(), bus_id.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), pci.bus,
                  pci.dev, pci.func);
    device.bus_id = bus_id.data();
    device.link_gb_per_s = static_cast<double>(pci.linkspeed);
    const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(hwloc, object);
    if (parent != nullptr && parent->nodeset != nullptr && hwloc_bitmap_weight(parent->nodeset) == 1)
      device.numa = first_numa(hwloc, parent->nodeset, -1);
    for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
      if (child->type == HWLOC_OBJ_OS_DEVICE && child->name != nullptr) device.interfaces.emplace_back(child->name);
    topology.devices.push_back(device);
  }
}

// One core per PU in one package with one memory: what is assumed when nothing better is known.
void assume_flat_machine(Topology& topology) {
  std::vector<int> pus = allowed_pus();
  if (pus.empty()) {
    const long online = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
    for (long pu = 0; pu < online; ++pu) pus.push_back(static_cast<int>(pu));
  }
  topology.cores.clear();
  for (const int pu : pus) topology.cores.push_back({0, 0, -1, {pu}, {}});
  topology.caches.clear();
  topology.notes.push_back("assuming one package with " + std::to_string(pus.size()) + " cores and one memory");
}

// Marks what this thread may use. A description of another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC) has no masks.
void mark_allowed(Topology& topology, bool this_machine) {
  const std::vector<int> mine = this_machine ? allowed_pus() : std::vector<int>{};
  for (Core& core : topology.cores) {
    if (mine.empty()) core.allowed_pus = core.pus;
    for (const int pu : core.pus)
      if (std::binary_search(mine.begin(), mine.end(), pu)) core.allowed_pus.push_back(pu);
  }
}

// Fills the lists of cores above, and makes every index that a core names valid.
void complete(Topology& topology) {
  if (topology.packages.empty()) topology.packages.emplace_back();
  if (topology.numa_nodes.empty()) topology.numa_nodes.emplace_back();
  for (std::size_t index = 0; index < topology.cores.size(); ++index) {
    const Core& core = topology.cores[index];
    topology.packages[static_cast<std::size_t>(core.package)].cores.push_back(static_cast<int>(index));
    topology.numa_nodes[static_cast<std::size_t>(core.numa)].cores.push_back(static_cast<int>(index));
  }
}

}  // namespace

Topology detect(Devices devices) {
  Topology topology;
  topology.hostname = host_name();
  topology.cpu_quota = cpu_quota();
  const Loaded hwloc = load(topology.notes, devices);
  const bool this_machine = hwloc == nullptr || hwloc_topology_is_thissystem(hwloc.get()) != 0;
  if (hwloc != nullptr) {
    if (!this_machine) topology.notes.push_back("describes another machine, as hwloc's environment variables ask");
    add_packages_and_memory(topology, hwloc.get());
    add_cores(topology, hwloc.get());
    add_caches(topology, hwloc.get());
    add_devices(topology, hwloc.get());
  }
  if (topology.cores.empty()) assume_flat_machine(topology);
  mark_allowed(topology, this_machine);
  complete(topology);
  return topology;
}

}  // namespace tutti::topology

// tutti topo: what hardware is here.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/topology/topology.h"
#include "tools/tutti/commands.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const topology::Device& device) {
  return {{"kind", topology::name_of(device.kind)},
          {"bus_id", device.bus_id},
          {"class", device.pci_class},
          {"class_name", device.class_name},
          {"vendor_id", device.vendor_id},
          {"device_id", device.device_id},
          {"vendor", device.vendor},
          {"model", device.model},
          {"numa", device.numa},
          {"link_gb_per_s", device.link_gb_per_s},
          {"interfaces", device.interfaces}};
}

Json to_json(const topology::Topology& machine) {
  Json out{{"hostname", machine.hostname}, {"usable_cores", topology::usable_cores(machine)},
           {"cpu_quota", nullptr},         {"packages", Json::array()},
           {"numa_nodes", Json::array()},  {"caches", Json::array()},
           {"cores", Json::array()},       {"devices", Json::array()},
           {"notes", machine.notes}};
  if (machine.cpu_quota) out["cpu_quota"] = *machine.cpu_quota;
  for (const auto& package : machine.packages)
    out["packages"].push_back({{"model", package.model}, {"cores", package.cores}});
  for (const auto& node : machine.numa_nodes)
    out["numa_nodes"].push_back(
        {{"os_index", node.os_index}, {"memory_bytes", node.memory_bytes}, {"cores", node.cores}});
  for (const auto& cache : machine.caches)
    out["caches"].push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"cores", cache.cores}});
  for (const auto& core : machine.cores)
    out["cores"].push_back({{"package", core.package},
                            {"numa", core.numa},
                            {"l3", core.l3},
                            {"pus", core.pus},
                            {"allowed_pus", core.allowed_pus}});
  for (const auto& device : machine.devices) out["devices"].push_back(to_json(device));
  return out;
}

}  // namespace

void add_topo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("topo", "Print the hardware of this machine as Tutti sees it");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] {
    const topology::Topology machine = topology::detect();
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // vendors' names need not be UTF-8
    std::cout << (*json ? to_json(machine).dump(2, ' ', false, replace) + "\n" : topology::to_text(machine));
  });
}

}  // namespace tutti::tools

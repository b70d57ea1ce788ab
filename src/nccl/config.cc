#include "src/nccl/config.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "src/nccl/environment.h"
#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

constexpr unsigned kMagic = 0xcafebeef;

// A whole-number field: since which version, and what it may be. Only `blocking` means something on a CPU; the others
// are hints to GPU kernels and networks, checked so that a mistake does not wait for the day that there are some.
struct Field {
  const char* name;
  int ncclConfig_t::*member;
  unsigned since;  // as in NCCL_VERSION_CODE
  int low, high;
};

constexpr Field kFields[] = {
    {"blocking", &ncclConfig_t::blocking, NCCL_VERSION(2, 14, 0), 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, NCCL_VERSION(2, 17, 0), 0, 8},
    {"minCTAs", &ncclConfig_t::minCTAs, NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"maxCTAs", &ncclConfig_t::maxCTAs, NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"splitShare", &ncclConfig_t::splitShare, 0, 0, 1},
    {"trafficClass", &ncclConfig_t::trafficClass, NCCL_VERSION(2, 25, 0), 0, INT_MAX},
    {"collnetEnable", &ncclConfig_t::collnetEnable, NCCL_VERSION(2, 27, 0), 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, NCCL_VERSION(2, 27, 0), 0, 3},
    {"shrinkShare", &ncclConfig_t::shrinkShare, NCCL_VERSION(2, 27, 0), 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, NCCL_VERSION(2, 27, 0), 1, INT_MAX},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, NCCL_VERSION(2, 28, 0), 1, 32},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, NCCL_VERSION(2, 28, 0), 0, 1},
};

// The caller's structure, with everything that it does not have undefined.
ncclConfig_t understood(const ncclConfig_t& given) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  constexpr std::size_t kHead = offsetof(ncclConfig_t, blocking);
  if (given.magic != kMagic)
    refuse_argument("the configuration was not initialised: start from NCCL_CONFIG_INITIALIZER (its magic is " +
                    std::to_string(given.magic) + ", not " + std::to_string(kMagic) + ")");
  if (given.size < kHead || given.size > 4096)
    refuse_argument("the configuration's size is " + std::to_string(given.size) +
                    "; start from NCCL_CONFIG_INITIALIZER, which sets it to sizeof(ncclConfig_t)");
  if (given.version < NCCL_VERSION(2, 14, 0))
    refuse_argument("the configuration's version is " + std::to_string(given.version) + "; valid: " +
                    std::to_string(NCCL_VERSION(2, 14, 0)) + " or more, as NCCL_CONFIG_INITIALIZER sets it");
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  for (const Field& field : kFields)
    if (config.version < field.since) config.*field.member = NCCL_CONFIG_UNDEF_INT;
  if (config.version < NCCL_VERSION(2, 17, 0)) config.netName = nullptr;
  return config;
}

void check(const Field& field, int value) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= field.low && value <= field.high)) return;
  refuse_argument("the configuration's " + std::string(field.name) + " is " + std::to_string(value) +
                  "; valid: " + std::to_string(field.low) +
                  (field.high == INT_MAX ? " or more" : " to " + std::to_string(field.high)) +
                  ", or NCCL_CONFIG_UNDEF_INT");
}

bool equal_but_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Settings settings_from_environment() {
  check_environment();
  Settings settings;
  settings.config = Config::from_environment();
  apply_environment(settings.config);
  settings.blocking = blocking_from_environment().value_or(true);
  return settings;
}

Settings apply_config(const Settings& base, const ncclConfig_t* given) {
  Settings settings = base;
  if (given == nullptr) return settings;
  const ncclConfig_t config = understood(*given);
  for (const Field& field : kFields) check(field, config.*field.member);
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config.minCTAs > config.maxCTAs)
    refuse_argument("the configuration's minCTAs is " + std::to_string(config.minCTAs) + " and its maxCTAs only " +
                    std::to_string(config.maxCTAs));
  if (config.netName != nullptr && !equal_but_case(config.netName, "Socket"))
    refuse_argument("the configuration's netName is '" + std::string(config.netName).substr(0, 60) +
                    "'; valid: Socket, or NULL");
  if (config.blocking != NCCL_CONFIG_UNDEF_INT && !blocking_from_environment())
    settings.blocking = config.blocking != 0;
  if (config.commName != nullptr) settings.name = std::string(config.commName).substr(0, 60);
  return settings;
}

}  // namespace tutti::nccl

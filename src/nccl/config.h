// ncclConfig_t and the NCCL_... variables of the environment, as far as they mean something here.
#pragma once

#include <string>

#include "nccl.h"
#include "tutti/communicator.h"

namespace tutti::nccl {

// How a communicator shall be.
struct Settings {
  bool blocking = true;
  std::string name;  // ncclConfig_t::commName; for messages
  Config config;
};

// What the environment alone says.
Settings settings_from_environment();

// What `config` says on top of `base`; null: nothing. Reads as much of the structure as its size says, and no field
// that is younger than its version, so that programs compiled against other versions are understood. The environment
// wins over the structure, as in NCCL. Throws Error(invalid_argument) that names the field and its valid values.
Settings apply_config(const Settings& base, const ncclConfig_t* config);

}  // namespace tutti::nccl

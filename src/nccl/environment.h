// The NCCL_... variables of the environment. Some have an equivalent here, some ask for what does not exist here and
// are checked and otherwise without effect; docs/nccl.md lists them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::nccl {

// Sets TUTTI_LOG and TUTTI_SOCKET_IFNAME from NCCL_DEBUG and NCCL_SOCKET_IFNAME where they are not set, the first time
// that it is called in a process; and checks all variables, each time. Throws Error(invalid_argument) that names the
// variable, its value and the valid ones.
void check_environment();

// NCCL_ALGO, NCCL_SHM_DISABLE: what they ask for in Tutti's words, where TUTTI_... does not say it already.
void apply_environment(Config& config);

// NCCL_COMM_BLOCKING; nothing when it is not set.
std::optional<bool> blocking_from_environment();

// The names of the variables known here, in order.
const std::vector<std::string>& known_variables();

}  // namespace tutti::nccl

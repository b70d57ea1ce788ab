// Who this process is in its job, and where the ranks meet: read from the launcher's environment or from a UniqueId.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/unique_id.h"

namespace tutti::runtime {

using Secret = std::array<std::byte, 32>;

// Where the ranks of a job meet. Exactly one rank (or the process that made the UniqueId) listens there.
struct MeetingPoint {
  std::vector<std::string> hosts;  // names or addresses, tried in order (and all of their addresses)
  std::uint16_t port = 0;
  std::optional<std::uint16_t> torch_store_port;  // set: MASTER_PORT belongs to torchrun's store; meet through it
  Secret secret{};                                // authenticates the ranks to each other
  std::string name;                               // tells jobs and restarts that share a meeting point apart
  bool serve = false;                             // this rank opens the meeting point (rank 0 of a launched job)
  int listener = -1;                              // then: one that listens at `port` already; stays the owner's
};

struct Job {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // as the launcher says; the library finds out by itself who shares a host
  std::optional<int> local_size;
  std::string source;  // "torchrun", "tutti run", "srun", "Open MPI", "MPICH", "TUTTI_RANK", "alone", "unique id"
  MeetingPoint meeting;
};

// Reads a variable; nothing when unset or empty. Tests pass their own.
using Environment = std::function<std::optional<std::string>(const char*)>;

// The precedence and the traps are those of docs/launchers.md. Throws Error(invalid_argument) that names the variable,
// its value and what is valid, also when two sources disagree.
Job job_from_environment(const Environment& environment);
Job job_from_unique_id(const UniqueId& id, int rank, int size);

}  // namespace tutti::runtime

// The launchers whose environments this library reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/runtime/job.h"

namespace tutti::runtime {

// What one launcher's variables say.
struct Launch {
  std::string source;         // "Open MPI"
  std::string rank_variable;  // for messages
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank, local_size;
  std::string id;                   // tells this job from others, the same text on every rank; empty: none is known
  std::optional<std::string> host;  // where rank 0 is and which port it may take, when the launcher says so
  std::uint16_t port = 0;
  bool elastic = false;  // started by torchrun, which may number ranks as it likes
  bool store = false;    // torchrun's store owns MASTER_PORT

  std::string text() const;  // "RANK=3 of 8 (torchrun)"
};

// In the order of precedence; each throws Error(invalid_argument) for variables that are there but make no sense.
std::vector<Launch> launches(const Environment& environment);

// "host:port" or "[address]:port".
std::pair<std::string, std::uint16_t> parse_address(std::string_view variable, std::string_view text);

}  // namespace tutti::runtime

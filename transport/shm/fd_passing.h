// Handing a descriptor to other processes of this host: by a door in the abstract name space, whoever knows the secret
// gets the descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "src/base/fd.h"
#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_door.h"

namespace tutti::transport {

using DoorName = std::array<char, 32>;  // random letters and digits; all zero: no door

// Served by the engine's thread. The descriptor stays the caller's and is handed to nobody after the destructor, which
// waits for the engine's thread.
class FdDoor {
 public:
  FdDoor(std::shared_ptr<runtime::Engine> engine, int fd, const runtime::Secret& secret);
  ~FdDoor();
  FdDoor(const FdDoor&) = delete;
  FdDoor& operator=(const FdDoor&) = delete;

  const DoorName& name() const { return name_; }

 private:
  DoorName name_{};
  std::shared_ptr<runtime::Door> door_;
};

// Fetches the descriptor behind `name`. Blocks for at most ten seconds; throws Error that names the rank.
base::Fd fetch_fd(const DoorName& name, const runtime::Secret& secret, int rank);

}  // namespace tutti::transport

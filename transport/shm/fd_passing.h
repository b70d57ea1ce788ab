// Handing a descriptor to other processes of this host: a door is a Unix socket in the abstract name space; whoever
// connects and knows the secret gets the descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "src/base/fd.h"
#include "src/runtime/engine.h"

namespace tutti::transport {

using DoorName = std::array<char, 32>;  // random letters and digits; all zero: no door

// The engine's thread serves it and never waits for a visitor: one that stays silent is shown out after two seconds,
// and of more than kVisitors at a time the oldest goes. Thread safety: construct and destroy it on the communicator's
// thread.
class Door {
 public:
  Door(std::shared_ptr<runtime::Engine> engine, int fd, const std::array<std::byte, 32>& secret);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const DoorName& name() const { return name_; }

 private:
  class Keeper;  // what the engine's callbacks share with the door
  DoorName name_{};
  std::shared_ptr<Keeper> keeper_;
};

// Fetches the descriptor behind `name`. Blocks for at most kDoorTimeout; throws Error that names the rank.
base::Fd fetch_fd(const DoorName& name, const std::array<std::byte, 32>& secret, int rank);

}  // namespace tutti::transport

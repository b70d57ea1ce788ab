// Handing descriptors to other processes of this host: by a door in the abstract name space, whoever knows the secret
// gets the descriptor that it asks for by number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "src/base/fd.h"
#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_door.h"

namespace tutti::transport {

using DoorName = std::array<char, 32>;  // in the abstract name space: random letters and digits; all zero: no door
DoorName random_name();
std::string_view text_of(const DoorName& name);

// The descriptor of a number; null when there is none. Called on the engine's thread; must not block.
using Offer = std::function<std::shared_ptr<const base::Fd>(std::uint64_t number)>;

// Served by the engine's thread. Nobody is handed anything after the destructor, which waits for the engine's thread.
class FdDoor {
 public:
  FdDoor(std::shared_ptr<runtime::Engine> engine, Offer offer, const runtime::Secret& secret);
  ~FdDoor();
  FdDoor(const FdDoor&) = delete;
  FdDoor& operator=(const FdDoor&) = delete;

  const DoorName& name() const { return name_; }

 private:
  DoorName name_{};
  std::shared_ptr<runtime::Door> door_;
};

// Fetches descriptor `number` from behind `name`. Blocks for at most ten seconds; throws Error that names the rank.
base::Fd fetch_fd(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank);

}  // namespace tutti::transport

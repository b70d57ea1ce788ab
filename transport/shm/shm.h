// Shared memory between ranks of one host: every rank's rings lie in its arena, and readers map it. Between ranks that
// are threads of one process the arena is simply shared; between processes its descriptor is opened through /proc or
// passed over a Unix socket in the abstract name space, so that no file is left behind whatever happens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/runtime/arena.h"
#include "src/runtime/engine.h"
#include "src/runtime/transport.h"
#include "transport/shm/fd_passing.h"

namespace tutti::transport {

// What peers learn of a rank, as the bytes of address(). Plain data: both ends run the same build (the rendezvous
// checks that).
struct ShmAddress {
  std::uint64_t process = 0;
  std::uint64_t arena = 0;  // address of the owner's shared_ptr to it, for ranks of the same process
  std::uint64_t bytes = 0;
  ProcPlace proc;   // where the descriptor may lie open
  DoorName door{};  // where it is handed out
  DoorName bell{};
};

struct ShmOptions {
  int rank = 0;
  std::uint64_t communicator = 0;           // nonce, equal on all ranks
  std::array<std::byte, 32> secret{};       // who knows it may map our memory
  std::shared_ptr<runtime::Arena> arena;    // this rank's
  std::shared_ptr<runtime::Engine> engine;  // hands out the descriptor
};

std::unique_ptr<runtime::Transport> make_shm_transport(const ShmOptions& options);

}  // namespace tutti::transport

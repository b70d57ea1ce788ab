// Handing memory to other processes of this host. By a door in the abstract name space: whoever knows the secret gets
// the descriptor that it asks for by number. Or by /proc, where the kernel lets processes of one user do so, which
// spares a connection and a handshake for each pair of ranks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "src/base/fd.h"
#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/rendezvous_door.h"
#include "src/runtime/wire.h"

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

// A visit to a door, for one descriptor. Does not block, so that the engine's thread may go while it serves its own
// door.
class FdVisit {
 public:
  FdVisit(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank);

  std::uint64_t number() const { return number_; }
  // Goes on as far as it can; the descriptor at the end of it, an empty Fd before (call again). Throws Error that names
  // the rank when it fails, after ten seconds at the latest.
  base::Fd advance();
  void wait() const;  // until there may be something to do, at most until it fails

 private:
  enum class Stage { calling, greeted, proved };
  [[noreturn]] void fail(const std::string& why) const;
  bool call();
  bool prove();

  DoorName name_;
  runtime::Secret secret_;
  std::uint64_t number_;
  int rank_;
  std::chrono::steady_clock::time_point until_;
  Stage stage_ = Stage::calling;
  runtime::Channel channel_;
  runtime::Nonce nonce_{};
};

// Where /proc may have a descriptor of a process.
struct ProcPlace {
  std::uint64_t pid_namespace = 0;  // 0: nowhere
  std::int32_t pid = 0;
  std::int32_t fd = -1;

  static ProcPlace of(const base::Fd& fd);  // of this process
};

// The memory there, opened anew by a process whose own place is `here`; empty when it is none of memfd_create("tutti")
// with `bytes` bytes, or the kernel does not let us. The process may have ended and its number may be another's: the
// caller looks whether it is the right one.
base::Fd open_memory(const ProcPlace& place, const ProcPlace& here, std::uint64_t bytes);

// Fetches descriptor `number` from behind `name`. Blocks for at most ten seconds; throws Error that names the rank.
base::Fd fetch_fd(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank);

}  // namespace tutti::transport

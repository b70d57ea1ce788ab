// The TCP transport: carries the messages of rings to ranks that share no memory with this one.
//
// Steps:    the writer's ring lies in the writer's process. progress() looks at the stamp of each ring's next message;
//           a published one is sent straight from the slot, and the slot is released when the kernel has taken it.
//           At the reader it is read straight into the slot of a ring of equal geometry and published there by its
//           stamp. The reader releases that slot in its own ring; the transport tells the writer's side (a credit).
// Messages: one frame header (32 bytes) per message, and per acknowledged port about one credit for every half ring.
// Flow:     of an acknowledged port at most `slots` messages are on their way or unreleased, so the reader's side has
//           room for whatever arrives and never stops reading: ports that share a connection do not block each other.
//           Unacknowledged ports need no credits: their schedule proves that the slot is free when a message comes.
// Copies:   none in this process, except that the first few KiB of a message may come by way of a staging buffer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/runtime/transport.h"

namespace tutti::transport {

struct TcpOptions {
  int rank = 0;
  int size = 1;
  std::uint64_t communicator = 0;      // the same number on all its ranks, different from other communicators'
  std::array<std::byte, 32> secret{};  // the same on all ranks; who does not know it is not let in
  std::uint16_t epoch = 1;             // of the communicator, see stamp_of()
  std::chrono::milliseconds connect_timeout{10'000};
  std::size_t memory_limit = 64 << 20;    // bytes of rings in which messages of other ranks arrive
  std::optional<std::string> interfaces;  // filter of NCCL's grammar; unset: TUTTI_SOCKET_IFNAME, or all
};

// Opens the listener. Throws Error(invalid_argument) for a bad interface filter, Error(system_error) without sockets.
//
// Beyond the Transport interface: a lost connection is Error(remote_error) naming the rank and its address. The
// destructor says goodbye to the peers, unless something failed or a message is half sent: call flush() first, which
// throws nothing, but logs the ranks that did not take their messages in time. The last quarter of the time to its
// deadline, at most a second, is left to the destructor, for the goodbyes: both together are over by the deadline. That
// a peer has said goodbye is no fault until a message for it is published. The destructor does not look at the rings;
// they may be gone.
std::unique_ptr<runtime::Transport> make_tcp_transport(const TcpOptions& options);

}  // namespace tutti::transport

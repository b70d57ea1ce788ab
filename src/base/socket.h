// Stream sockets of TCP, and of Unix where an address says so, that never block and never raise SIGPIPE: close-on-exec,
// EINTR handled, errors as values where they are everyday events and as Error where they are not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/uio.h>

#include "src/base/address.h"
#include "src/base/fd.h"

namespace tutti::base {

// Listens on every address of this host, IPv6 and IPv4 at once (IPv4 alone where the host has no IPv6); port 0: any
// free one. Throws Error(system_error).
Fd listen_everywhere(std::uint16_t port = 0);
// Listens at a name, see unix_address(). Throws Error(system_error).
Fd listen_unix(std::string_view name);

// The next connection waiting at a listener. Without a socket: nobody waits, or `error` says what this process has too
// little of (EMFILE, ENFILE, ENOBUFS, ENOMEM). Connections that died while they waited are skipped.
struct Accepted {
  Fd socket;
  int error = 0;
};
Accepted accept_one(int listener);

// A connection attempt: when the socket becomes writable, connect_error() says how it ended. `error` is set when it
// failed at once (the socket is empty then).
struct Connecting {
  Fd socket;
  int error = 0;
};
Connecting start_connect(const SocketAddress& address);
// 0: connected; EINPROGRESS: not yet; otherwise the errno of the failure. Does not block.
int connect_error(int socket);

Address local_address(int socket);
SocketAddress remote_address(int socket);

// Both send small messages at once (TCP_NODELAY). For messages of ranks: with buffers as large as the system's settings
// give. For the control plane: a host that falls silent is found dead within about 10 s.
void tune_for_messages(int socket);
void tune_for_control(int socket);

// What one read or write did.
struct Transfer {
  enum class State {
    moved,        // `bytes` (at least 1, maybe fewer than asked)
    would_block,  // nothing now
    closed,       // reading only: the other side has sent its last byte
    failed,       // `error` is the errno
  };
  State state = State::would_block;
  std::size_t bytes = 0;
  int error = 0;
};
Transfer receive(int socket, void* buffer, std::size_t bytes);
Transfer receive(int socket, const iovec* pieces, std::size_t count);
Transfer send(int socket, const void* buffer, std::size_t bytes);
Transfer send(int socket, const iovec* pieces, std::size_t count);

// Bytes that were sent but not yet acknowledged by the other host.
std::size_t unacknowledged_bytes(int socket);

// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT) or the time is over; true when ready.
bool wait_ready(int fd, short events, std::chrono::steady_clock::time_point until);
// The time left, for poll(): not negative, at most a minute.
int poll_milliseconds(std::chrono::steady_clock::time_point until);

}  // namespace tutti::base

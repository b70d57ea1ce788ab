#include "src/base/socket.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "src/base/error.h"

namespace tutti::base {
namespace {

Fd open_socket(int family) { return Fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

void set_option(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof(value));
}

// False with errno set.
bool bind_and_listen(const Fd& fd, const SocketAddress& address) {
  return ::bind(fd.get(), address.get(), address.length) == 0 && ::listen(fd.get(), SOMAXCONN) == 0;
}

Transfer result_of(ssize_t moved, bool reading) {
  Transfer transfer;
  if (moved > 0) {
    transfer.state = Transfer::State::moved;
    transfer.bytes = static_cast<std::size_t>(moved);
  } else if (moved == 0) {
    transfer.state = reading ? Transfer::State::closed : Transfer::State::would_block;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
    transfer.state = Transfer::State::failed;
    transfer.error = errno;
  }
  return transfer;
}

// A number of a file of /proc/sys, by position; 0 when it cannot be read.
long setting(const char* path, int position) {
  std::ifstream file(path);
  long value = 0;
  for (int i = 0; i <= position; ++i)
    if (!(file >> value)) return 0;
  return value;
}

// A size set by hand ends the kernel's own tuning of the buffer, so it is set only where that gives a larger one.
int buffer_size(const char* limit, const char* tuned) {
  constexpr long kLargest = 8 << 20;
  const long most = std::min(setting(limit, 0), kLargest);
  return most > setting(tuned, 2) ? static_cast<int>(most) : 0;
}

}  // namespace

Fd listen_everywhere(std::uint16_t port) {
  int error = 0;
  for (const bool v6 : {true, false}) {
    Fd fd = open_socket(v6 ? AF_INET6 : AF_INET);
    if (fd) {
      set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (v6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
      Address any;
      any.v6 = v6;
      any.port = port;
      if (bind_and_listen(fd, any)) return fd;
    }
    error = errno;
    if (error == EADDRINUSE || error == EACCES) break;  // the other family would only hide it
  }
  std::string hint;
  if (error == EADDRINUSE)
    hint = "; another program listens there: choose another port (MASTER_PORT or TUTTI_RENDEZVOUS) or end that program";
  if (error == EACCES) hint = "; ports below 1024 are reserved: choose a higher one";
  throw Error(ErrorCode::system_error, "cannot listen on port " + std::to_string(port) + " of any address ([::]:" +
                                           std::to_string(port) + "): " + errno_text(error) + hint);
}

Fd listen_unix(std::string_view name) {
  Fd fd = open_socket(AF_UNIX);
  if (fd && bind_and_listen(fd, unix_address(name))) return fd;
  const int error = errno;
  throw Error(ErrorCode::system_error,
              "cannot listen on the abstract Unix socket @" + std::string(name) + ": " + errno_text(error) +
                  (error == EADDRINUSE ? "; another process of the same job listens there" : ""));
}

Accepted accept_one(int listener) {
  for (int tries = 0; tries < 64; ++tries) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd || errno == EAGAIN || errno == EWOULDBLOCK) return {std::move(fd)};
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return {{}, errno};
    if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK || errno == EOPNOTSUPP || errno == EFAULT)
      throw_errno("cannot accept a connection");
    // Anything else (EINTR, ECONNABORTED, network errors) concerns one connection that is gone already.
  }
  return {};
}

Connecting start_connect(const SocketAddress& address) {
  Connecting result{open_socket(address.storage.ss_family)};
  if (!result.socket) {
    result.error = errno;
  } else if (::connect(result.socket.get(), address.get(), address.length) != 0 && errno != EINPROGRESS &&
             errno != EINTR) {
    result.error = errno;
    result.socket.reset();
  }
  return result;
}

int connect_error(int socket) {
  pollfd entry{socket, POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Address local_address(int socket) {
  SocketAddress raw;
  if (::getsockname(socket, raw.get(), &raw.length) != 0) throw_errno("cannot read a socket's own address");
  return raw.address();
}

SocketAddress remote_address(int socket) {
  SocketAddress address;
  if (::getpeername(socket, address.get(), &address.length) != 0) return {};
  return address;
}

void tune_for_messages(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  static const int send_bytes = buffer_size("/proc/sys/net/core/wmem_max", "/proc/sys/net/ipv4/tcp_wmem");
  static const int receive_bytes = buffer_size("/proc/sys/net/core/rmem_max", "/proc/sys/net/ipv4/tcp_rmem");
  if (send_bytes > 0) set_option(socket, SOL_SOCKET, SO_SNDBUF, send_bytes);
  if (receive_bytes > 0) set_option(socket, SOL_SOCKET, SO_RCVBUF, receive_bytes);
}

void tune_for_control(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

Transfer receive(int socket, void* buffer, std::size_t bytes) {
  ssize_t moved = 0;
  do moved = ::recv(socket, buffer, bytes, MSG_DONTWAIT);
  while (moved < 0 && errno == EINTR);
  return result_of(moved, true);
}

Transfer receive(int socket, const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  ssize_t moved = 0;
  do moved = ::recvmsg(socket, &message, MSG_DONTWAIT);
  while (moved < 0 && errno == EINTR);
  return result_of(moved, true);
}

Transfer send(int socket, const void* buffer, std::size_t bytes) {
  const iovec piece{const_cast<void*>(buffer), bytes};
  return send(socket, &piece, 1);
}

Transfer send(int socket, const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  ssize_t moved = 0;
  do moved = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (moved < 0 && errno == EINTR);
  return result_of(moved, false);
}

std::size_t unacknowledged_bytes(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

int poll_milliseconds(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

bool wait_ready(int fd, short events, std::chrono::steady_clock::time_point until) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, poll_milliseconds(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("cannot wait for a socket");
    if (std::chrono::steady_clock::now() >= until) return false;
  }
}

}  // namespace tutti::base

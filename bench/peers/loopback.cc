#include "bench/peers/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tutti::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPatienceSeconds = 20;
constexpr int kTriesPerLookAtClock = 4096;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string("loopback TCP: ") + what + ": " + std::strerror(errno));
}

class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    auto* generic = reinterpret_cast<sockaddr*>(&address_);
    if (socket_ < 0 || ::bind(socket_, generic, size) != 0 || ::listen(socket_, 1) != 0 ||
        ::getsockname(socket_, generic, &size) != 0)
      fail("cannot listen on 127.0.0.1");
  }
  ~Listener() { ::close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int connect() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0 || ::connect(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0)
      fail("cannot connect to 127.0.0.1");
    return socket;
  }
  int accept() const {
    const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) fail("cannot accept");
    return socket;
  }

 private:
  int socket_;
  sockaddr_in address_{};
};

void send_all(int socket, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("cannot send");
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int socket, char* data, std::size_t bytes, Receive how) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(kPatienceSeconds);
  for (int tries = 1; bytes > 0; ++tries) {
    const ssize_t received = ::recv(socket, data, bytes, how == Receive::spinning ? MSG_DONTWAIT : 0);
    const bool nothing_yet = received < 0 && how == Receive::spinning && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (nothing_yet || (received < 0 && errno == EINTR)) {
      if (tries % kTriesPerLookAtClock == 0 && Clock::now() > deadline) fail("the other side is silent");
      continue;
    }
    if (received <= 0) fail("cannot receive");
    data += received;
    bytes -= static_cast<std::size_t>(received);
  }
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

LoopbackConnection::LoopbackConnection() {
  const Listener listener;
  sockets_[0] = listener.connect();
  sockets_[1] = listener.accept();
  const int one = 1;
  const timeval patience{kPatienceSeconds, 0};
  for (const int socket : sockets_)
    if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
      fail("cannot set an option");
}

LoopbackConnection::~LoopbackConnection() {
  for (const int socket : sockets_)
    if (socket >= 0) ::close(socket);
}

double LoopbackConnection::ping_pong(int side, std::size_t bytes, int rounds, Receive receive) {
  std::vector<char> data(bytes);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    if (side == 0) send_all(sockets_[side], data.data(), bytes);
    receive_all(sockets_[side], data.data(), bytes, receive);
    if (side == 1) send_all(sockets_[side], data.data(), bytes);
  }
  return seconds_since(start) / rounds;
}

double LoopbackConnection::stream(int side, std::size_t total, std::size_t block) {
  std::vector<char> data(block);
  const Clock::time_point start = Clock::now();
  for (std::size_t moved = 0; moved < total; moved += block) {
    if (side == 0)
      send_all(sockets_[side], data.data(), block);
    else
      receive_all(sockets_[side], data.data(), block, Receive::sleeping);
  }
  char end = 0;  // the time ends when all has arrived
  if (side == 0)
    receive_all(sockets_[side], &end, 1, Receive::sleeping);
  else
    send_all(sockets_[side], &end, 1);
  return static_cast<double>(total) / seconds_since(start);
}

}  // namespace tutti::peers

#include "transport/shm/fd_passing.h"

#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/error.h"

namespace tutti::transport {
namespace {

constexpr int kDoorTimeoutSeconds = 10;  // a loaded host with 64 ranks starting at once
constexpr std::chrono::milliseconds kVisitorPatience{2000};
constexpr std::size_t kVisitors = 256;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};

using Token = std::array<unsigned char, crypto_auth_BYTES>;

// Proves that one knows the secret, for this door only.
Token token_for(const DoorName& name, const std::array<std::byte, 32>& secret) {
  static_assert(crypto_auth_KEYBYTES == 32);
  Token token;
  crypto_auth(token.data(), reinterpret_cast<const unsigned char*>(name.data()), name.size(),
              reinterpret_cast<const unsigned char*>(secret.data()));
  return token;
}

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;
};

Address abstract_address(const DoorName& name) {
  Address result;
  result.address.sun_family = AF_UNIX;
  // A leading zero byte selects the abstract name space: the name vanishes with its socket.
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

DoorName random_name() {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  DoorName name;
  randombytes_buf(name.data(), name.size());
  for (char& c : name) c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  std::memcpy(name.data(), "tutti-", 6);
  return name;
}

void set_timeouts(int socket, long seconds) {
  const timeval limit{seconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool send_fd(int socket, int fd) {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// A system call again and again while signals interrupt it, but not for longer than the timeout of the socket.
template <class Call>
auto retried(const Call& call) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(kDoorTimeoutSeconds);
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR || std::chrono::steady_clock::now() > limit) return result;
  }
}

// The descriptor, or an empty Fd with errno set.
base::Fd receive_fd(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = retried([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
  if (got == 0) errno = ECONNREFUSED;  // turned away: the secret did not match
  if (got <= 0) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  errno = message.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;  // cut short: no number was left for the descriptor
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return base::Fd(fd);
}

}  // namespace

class Door::Keeper : public std::enable_shared_from_this<Keeper> {
 public:
  Keeper(std::shared_ptr<runtime::Engine> engine, int fd, const DoorName& name, const std::array<std::byte, 32>& secret)
      : engine_(std::move(engine)), fd_(fd), expected_(token_for(name, secret)) {
    listener_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const Address address = abstract_address(name);
    if (!listener_ ||
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0)
      base::throw_errno("cannot open a Unix socket to share memory with the other ranks of this host");
  }

  void open() {
    engine_->watch(listener_.get(), EPOLLIN, [self = shared_from_this()](std::uint32_t) { self->let_in(); });
  }

  void close() {
    engine_->unwatch(listener_.get());
    std::map<std::uint64_t, base::Fd> visitors;
    {
      const std::lock_guard lock(mutex_);
      visitors.swap(visitors_);
    }
    for (const auto& [number, visitor] : visitors) engine_->unwatch(visitor.get());
  }

 private:
  void let_in() {
    base::Fd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!visitor) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause();
      return;
    }
    const int fd = visitor.get();
    std::uint64_t number = 0;  // descriptors are used again, numbers are not
    std::uint64_t oldest = 0;
    {
      const std::lock_guard lock(mutex_);
      if (visitors_.size() >= kVisitors) oldest = visitors_.begin()->first;
      number = ++visits_;
      visitors_.emplace(number, std::move(visitor));
    }
    if (oldest != 0) show_out(oldest);
    engine_->after(kVisitorPatience, [weak = weak_from_this(), number] {
      if (const auto self = weak.lock()) self->show_out(number);
    });
    engine_->watch(fd, EPOLLIN, [self = shared_from_this(), number, fd](std::uint32_t) { self->answer(number, fd); });
  }

  // No descriptor is left for a visitor: the queue would be reported at once again and again.
  void pause() {
    engine_->rewatch(listener_.get(), 0);
    engine_->after(kPauseWithoutDescriptors, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->engine_->rewatch(self->listener_.get(), EPOLLIN);
    });
  }

  // The token comes in one piece or not at all: it is far smaller than a socket's buffer.
  void answer(std::uint64_t number, int fd) {
    Token token{};
    if (::recv(fd, token.data(), token.size(), MSG_DONTWAIT) == static_cast<ssize_t>(token.size()) &&
        sodium_memcmp(token.data(), expected_.data(), token.size()) == 0)
      send_fd(fd, fd_);
    show_out(number);
  }

  void show_out(std::uint64_t number) {
    base::Fd visitor;
    {
      const std::lock_guard lock(mutex_);
      const auto found = visitors_.find(number);
      if (found == visitors_.end()) return;
      visitor = std::move(found->second);
      visitors_.erase(found);
    }
    engine_->unwatch(visitor.get());
  }

  std::shared_ptr<runtime::Engine> engine_;
  const int fd_;
  const Token expected_;
  base::Fd listener_;
  std::mutex mutex_;
  std::map<std::uint64_t, base::Fd> visitors_;
  std::uint64_t visits_ = 0;
};

Door::Door(std::shared_ptr<runtime::Engine> engine, int fd, const std::array<std::byte, 32>& secret)
    : name_(random_name()), keeper_(std::make_shared<Keeper>(std::move(engine), fd, name_, secret)) {
  keeper_->open();
}

Door::~Door() { keeper_->close(); }

base::Fd fetch_fd(const DoorName& name, const std::array<std::byte, 32>& secret, int rank) {
  const std::string what = "cannot map the shared memory of rank " + std::to_string(rank) +
                           " (is it in another network namespace? TUTTI_TRANSPORT=tcp goes without)";
  const base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) base::throw_errno(what);
  set_timeouts(socket.get(), kDoorTimeoutSeconds);
  const Address address = abstract_address(name);
  const auto* const there = reinterpret_cast<const sockaddr*>(&address.address);
  if (retried([&] { return ::connect(socket.get(), there, address.length); }) != 0) base::throw_errno(what);
  const Token token = token_for(name, secret);
  const ssize_t sent = retried([&] { return ::send(socket.get(), token.data(), token.size(), MSG_NOSIGNAL); });
  if (sent != static_cast<ssize_t>(token.size())) base::throw_errno(what);
  base::Fd fd = receive_fd(socket.get());
  if (!fd && errno == EMFILE)
    throw Error(ErrorCode::system_error, "cannot map the shared memory of rank " + std::to_string(rank) +
                                             ": this process is out of descriptors (raise `ulimit -n`)");
  if (!fd) base::throw_errno(what);
  return fd;
}

}  // namespace tutti::transport

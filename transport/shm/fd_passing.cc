// Steps:    connect; the handshake of src/runtime/rendezvous_auth.h; then, instead of a welcome, one byte that carries
//           the descriptor.
// Messages: two each way.
#include "transport/shm/fd_passing.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "src/base/error.h"
#include "src/base/socket.h"

namespace tutti::transport {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::Purpose;

constexpr std::chrono::seconds kDoorTimeout{10};  // a loaded host with 64 ranks starting at once

// A message of one byte with room for a descriptor.
struct FdMessage {
  FdMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  FdMessage(const FdMessage&) = delete;
  FdMessage& operator=(const FdMessage&) = delete;

  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

void send_fd(int socket, int fd) {
  FdMessage message;
  cmsghdr* item = CMSG_FIRSTHDR(&message.header);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(item), &fd, sizeof fd);
  ::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT);  // a visitor that has gone needs none
}

// The descriptor, or an empty Fd with errno set.
base::Fd receive_fd(int socket) {
  FdMessage message;
  const ssize_t got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got == 0) errno = ECONNRESET;
  if (got <= 0) return {};
  const cmsghdr* item = CMSG_FIRSTHDR(&message.header);
  errno = message.header.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;  // cut short: no number was left for the descriptor
  if (item == nullptr || item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS ||
      item->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
  return base::Fd(fd);
}

}  // namespace

DoorName random_name() {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  DoorName name;
  randombytes_buf(name.data(), name.size());
  for (char& c : name) c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  std::memcpy(name.data(), "tutti-", 6);
  return name;
}

std::string_view text_of(const DoorName& name) { return {name.data(), name.size()}; }

FdDoor::FdDoor(std::shared_ptr<runtime::Engine> engine, Offer offer, const runtime::Secret& secret)
    : name_(random_name()),
      door_(runtime::Door::open(std::move(engine), {}, base::listen_unix(text_of(name_)), secret, Purpose::memory,
                                [offer = std::move(offer)](runtime::Door&, runtime::Door::Guest guest) {
                                  std::uint64_t number = 0;
                                  if (guest.hello.size() != sizeof number) return;
                                  std::memcpy(&number, guest.hello.data(), sizeof number);
                                  if (const auto wanted = offer(number)) send_fd(guest.channel.fd(), wanted->get());
                                })) {}

FdDoor::~FdDoor() { door_->close_and_wait(); }

ProcPlace ProcPlace::of(const base::Fd& fd) {
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) != 0) return {};
  return {space.st_ino, ::getpid(), fd.get()};
}

// The link is read first: to open another kind of file could have effects.
base::Fd open_memory(const ProcPlace& place, const ProcPlace& here, std::uint64_t bytes) {
  constexpr std::string_view kExpected = "/memfd:tutti";
  if (place.pid_namespace == 0 || place.pid_namespace != here.pid_namespace) return {};
  const std::string path = "/proc/" + std::to_string(place.pid) + "/fd/" + std::to_string(place.fd);
  std::array<char, kExpected.size()> target{};
  if (::readlink(path.c_str(), target.data(), target.size()) != static_cast<ssize_t>(target.size()) ||
      std::string_view(target.data(), target.size()) != kExpected)
    return {};
  base::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != bytes) return {};
  return fd;
}

FdVisit::FdVisit(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank)
    : name_(name), secret_(secret), number_(number), rank_(rank), until_(Clock::now() + kDoorTimeout) {}

void FdVisit::fail(const std::string& why) const {
  throw Error(ErrorCode::system_error,
              "cannot map the shared memory of rank " + std::to_string(rank_) +
                  " (is it in another network namespace? TUTTI_TRANSPORT=tcp goes without): " + why);
}

base::Fd FdVisit::advance() {
  if (stage_ == Stage::calling && call()) stage_ = Stage::greeted;
  if (stage_ == Stage::greeted && prove()) stage_ = Stage::proved;
  if (stage_ == Stage::proved) {
    // Not by the channel: what it reads loses its descriptor.
    base::Fd fd = receive_fd(channel_.fd());
    if (!fd && errno != EAGAIN) fail(base::errno_text());
    if (fd) return fd;
  }
  if (Clock::now() >= until_) fail(base::errno_text(stage_ == Stage::calling ? EAGAIN : ETIMEDOUT));
  return {};
}

// False while the door's queue is full.
bool FdVisit::call() {
  base::Connecting connecting = base::start_connect(base::unix_address(text_of(name_)));
  if (!connecting.socket) {
    if (connecting.error != EAGAIN) fail(base::errno_text(connecting.error));
    return false;
  }
  channel_ = runtime::Channel(std::move(connecting.socket), runtime::kStrangerLimit);
  nonce_ = runtime::random_nonce();
  channel_.send(runtime::kGreeting, runtime::greeting(Purpose::memory, nonce_));
  return true;
}

// False while there is no challenge to answer.
bool FdVisit::prove() {
  const bool open = channel_.receive();
  const auto frame = channel_.next();
  if (!frame) {
    if (!open || channel_.broken()) fail(channel_.end());
    return false;
  }
  runtime::Nonce theirs{};
  if (runtime::read_challenge(*frame, secret_, Purpose::memory, nonce_, theirs) != runtime::Verdict::good)
    fail("its secret is another one");
  runtime::Bytes wish(sizeof number_);
  std::memcpy(wish.data(), &number_, sizeof number_);
  channel_.send(runtime::kProof, runtime::proof(secret_, Purpose::memory, nonce_, theirs, wish));
  return true;
}

void FdVisit::wait() const {
  if (stage_ == Stage::calling)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  else
    base::wait_ready(channel_.fd(), POLLIN, until_);
}

base::Fd fetch_fd(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank) {
  FdVisit visit(name, secret, number, rank);
  for (;;) {
    if (base::Fd fd = visit.advance()) return fd;
    visit.wait();
  }
}

}  // namespace tutti::transport

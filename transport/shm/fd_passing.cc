// Steps:    connect; the handshake of src/runtime/rendezvous_auth.h; then, instead of a welcome, one byte that carries
//           the descriptor.
// Messages: two each way.
#include "transport/shm/fd_passing.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

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

[[noreturn]] void fail(int rank, const std::string& why) {
  throw Error(ErrorCode::system_error,
              "cannot map the shared memory of rank " + std::to_string(rank) +
                  " (is it in another network namespace? TUTTI_TRANSPORT=tcp goes without): " + why);
}

base::Fd connect_to(const DoorName& name, int rank, Clock::time_point until) {
  for (;;) {
    base::Connecting connecting = base::start_connect(base::unix_address(text_of(name)));
    if (connecting.socket) return std::move(connecting.socket);
    if (connecting.error != EAGAIN || Clock::now() >= until) fail(rank, base::errno_text(connecting.error));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the door's queue is full
  }
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

base::Fd fetch_fd(const DoorName& name, const runtime::Secret& secret, std::uint64_t number, int rank) {
  const auto until = Clock::now() + kDoorTimeout;
  runtime::Channel channel(connect_to(name, rank, until), runtime::kStrangerLimit);
  const runtime::Nonce mine = runtime::random_nonce();
  runtime::Nonce theirs{};
  channel.send(runtime::kGreeting, runtime::greeting(Purpose::memory, mine));
  const auto frame = channel.await(until);
  if (!frame) fail(rank, channel.end().empty() ? base::errno_text(ETIMEDOUT) : channel.end());
  if (runtime::read_challenge(*frame, secret, Purpose::memory, mine, theirs) != runtime::Verdict::good)
    fail(rank, "its secret is another one");
  runtime::Bytes wish(sizeof number);
  std::memcpy(wish.data(), &number, sizeof number);
  channel.send(runtime::kProof, runtime::proof(secret, Purpose::memory, mine, theirs, wish));
  if (!base::wait_ready(channel.fd(), POLLIN, until)) fail(rank, base::errno_text(ETIMEDOUT));
  // Not by the channel: what it reads loses its descriptor.
  base::Fd fd = receive_fd(channel.fd());
  if (!fd) fail(rank, base::errno_text());
  return fd;
}

}  // namespace tutti::transport

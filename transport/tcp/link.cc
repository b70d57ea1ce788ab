#include "transport/tcp/link.h"

#include <array>

#include <sys/socket.h>

#include "src/base/error.h"
#include "src/base/socket.h"

namespace tutti::transport::tcp {

void Link::attach(base::Fd socket, const base::Address& address) {
  socket_ = std::move(socket);
  address_ = address;
  woken(false);
  receiver_.set_complaint("rank " + std::to_string(rank_) + " got garbage from rank " + std::to_string(peer_) + " at " +
                          base::to_string(address));
}

void Link::lose(const std::string& why) {
  lost_ = "rank " + std::to_string(rank_) + " lost the connection to rank " + std::to_string(peer_) + " at " +
          base::to_string(address_) + ": " + why;
}

bool Link::progress(bool look) {
  bool moved = false;
  if (lost_.empty()) {
    if ((readable_ || look) && !ended_) moved = receive();
    moved = send() || moved;
  }
  if (!lost_.empty() && (fatal_ || sender_.pending())) throw Error(ErrorCode::remote_error, lost_);
  return moved;
}

bool Link::receive() {
  bool moved = false;
  int error = 0;
  Receiver::Result result{};
  try {
    result = receiver_.receive(socket_.get(), sender_, moved, error);
  } catch (const Error& fault) {
    lost_ = fault.what();
    fatal_ = true;
    throw;
  }
  if (result == Receiver::Result::drained) {
    readable_ = ending_ || send_error_ != 0;
    if (send_error_ != 0 && !moved && !may_end()) lose(base::errno_text(send_error_));
  }
  if (result == Receiver::Result::closed || result == Receiver::Result::failed) {
    ended_ = true;
    readable_ = false;
    if (may_end()) return moved;
    // recv() answers 0 after a failed send() has taken the socket's error, so that one is remembered.
    if (error == 0) error = send_error_;
    lose(error != 0 ? base::errno_text(error)
                    : "it closed the connection without leaving (did it end or was it killed?)");
  }
  return moved;
}

// The peer has said goodbye, or it is the lower rank and has sent nothing at all: then it may have left in good order,
// or given up, before it read that this rank had confirmed the connection. Whether it died, the control plane knows.
bool Link::may_end() const { return receiver_.left() || (rank_ > peer_ && !receiver_.heard()); }

bool Link::send() {
  if (!lost_.empty()) return false;
  if (ended_ || send_error_ != 0) {
    if ((ended_ || receiver_.left()) && sender_.pending())
      lose(receiver_.left() ? "it has left the communicator, but a message for it is waiting"
                            : "it closed the connection before it had sent anything, but a message for it is waiting");
    return false;
  }
  sender_.collect(receiver_);
  if (!writable_) return false;
  bool moved = false;
  const Sender::Result result = sender_.send(socket_.get(), receiver_, moved, send_error_);
  if (result == Sender::Result::full) writable_ = false;
  if (result == Sender::Result::failed) readable_ = true;
  return moved;
}

bool Link::unsent() const {
  if (!lost_.empty() || ended_) return false;
  return sender_.pending() || (socket_ && base::unacknowledged_bytes(socket_.get()) > 0);
}

bool Link::leave() {
  if (!socket_ || !lost_.empty() || ended_ || send_error_ != 0) return true;
  if (!said_goodbye_ && sender_.busy()) return true;  // this is no good end: the peer shall see a lost connection
  std::array<std::byte, 4096> waste;
  base::Transfer got;
  do got = base::receive(socket_.get(), waste.data(), waste.size());
  while (got.state == base::Transfer::State::moved);
  if (got.state != base::Transfer::State::would_block) return true;
  if (!said_goodbye_) {
    said_goodbye_ = sender_.goodbye(socket_.get());
    if (!said_goodbye_) return false;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  return base::unacknowledged_bytes(socket_.get()) == 0;
}

}  // namespace tutti::transport::tcp

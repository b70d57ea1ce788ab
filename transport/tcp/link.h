// One peer: its connection once there is one, and all that goes over it.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/address.h"
#include "src/base/fd.h"
#include "transport/tcp/receiver.h"
#include "transport/tcp/sender.h"

namespace tutti::transport::tcp {

class Link {
 public:
  // The peer may open rings of at most `open_limit` bytes here.
  Link(int rank, int peer, std::uint16_t epoch, std::size_t open_limit)
      : rank_(rank),
        peer_(peer),
        sender_(epoch, "rank " + std::to_string(rank) + " and rank " + std::to_string(peer)),
        receiver_(epoch, open_limit) {}

  Sender& sender() { return sender_; }
  Receiver& receiver() { return receiver_; }

  void attach(base::Fd socket, const base::Address& address);

  // Moves what can be moved. Throws Error(remote_error) when the peer has sent garbage or is lost with a message
  // waiting for it, and again at each further call. `look` reads without having been told that there is something.
  bool progress(bool look);
  // The socket may have become readable and writable. `ending`: the peer's last byte has come, or an error; there will
  // be no further event, so it is read until it says so itself.
  void woken(bool ending) {
    readable_ = writable_ = true;
    ending_ = ending_ || ending;
  }
  bool blocked() const { return !writable_; }
  // The peer is gone without a goodbye: no more will come from it. All that it had sent has been read.
  bool lost() const { return !lost_.empty(); }
  const std::string& loss() const { return lost_; }

  // Something published has not been taken by the peer's host yet.
  bool unsent() const;
  // At the end: says goodbye, if no message is on its way and nothing failed, and throws away what the peer still
  // sends. True when the socket can be closed without loss; call it again until then. Does not look at
  // the rings, which may be gone. Closing the socket earlier, with bytes unread, would reset the connection and lose
  // what is on its way to the peer.
  bool leave();

 private:
  bool receive();
  bool send();
  bool may_end() const;
  void lose(const std::string& why);

  int rank_, peer_;
  base::Fd socket_;
  base::Address address_;
  Sender sender_;
  Receiver receiver_;
  bool readable_ = false, writable_ = false;
  bool ending_ = false;
  bool said_goodbye_ = false;
  bool ended_ = false;  // the peer's last byte has been read
  int send_error_ = 0;  // errno; the reading half is drained before it is reported, for the peer may have said goodbye
  std::string lost_;    // the message of the fault
  bool fatal_ = false;  // it is one whatever the peer had sent
};

}  // namespace tutti::transport::tcp

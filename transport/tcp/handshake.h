// One connection on its way from connect() or accept() to a proven peer (see wire.h). Never blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/fd.h"
#include "transport/tcp/wire.h"

namespace tutti::transport::tcp {

// Who this rank is, to those who connect.
struct Identity {
  int rank = 0;
  int size = 1;
  std::uint64_t communicator = 0;
  std::array<std::byte, 32> secret{};
};

class Handshake {
 public:
  static constexpr int kAnyone = -1;

  // Takes part as the dialer of `peer` (the socket may still be connecting) or, with kAnyone, as the acceptor.
  Handshake(const Identity& self, base::Fd socket, int peer);

  enum class State {
    pending,  // wait for the socket
    proven,   // the peer knows the secret (and, if it is the lower rank, offers this connection): choose() or drop it
    chosen,   // the connection is to be used: take() it
    failed,   // failure() says why
  };
  // Goes on as far as the socket lets it.
  State advance();
  // The lower rank offers this connection for the pair, the higher one confirms it. advance() then answers `chosen`
  // when the confirmation has been read or sent.
  void choose();

  int peer() const { return peer_; }
  int socket() const { return socket_.get(); }
  base::Fd take() { return std::move(socket_); }
  const std::string& failure() const { return failure_; }
  // These hold after a failure too.
  bool connected() const { return connected_; }  // TCP stood; the peer may be too busy to answer
  bool peer_proven() const { return peer_proven_; }
  // The peer may confirm at any time and use the connection from then on, so this side may not drop it.
  bool offered() const { return offered_; }

 private:
  enum class Stage { connecting, hello, proof, mark, decide, done, failed };  // what is awaited

  bool fail(const std::string& why);
  bool write_pending();
  bool read_awaited();
  bool handle_hello();
  bool handle_proof();
  bool handle_mark();
  void send(const void* bytes, std::size_t count);
  void await(Stage stage, std::size_t bytes);
  Proof proof_of(bool by_dialer) const;
  bool dialer() const { return dialer_; }
  bool lower() const { return self_->rank < peer_; }

  const Identity* self_;
  base::Fd socket_;
  int peer_;
  bool dialer_;
  bool connected_ = false, peer_proven_ = false, offered_ = false;
  Stage stage_ = Stage::connecting;
  Hello mine_{};
  Hello theirs_{};
  std::array<std::byte, 160> out_{};
  std::size_t out_begin_ = 0, out_end_ = 0;
  std::array<std::byte, sizeof(Hello)> in_{};
  std::size_t in_bytes_ = 0, awaited_ = 0;
  std::string failure_;
};

}  // namespace tutti::transport::tcp

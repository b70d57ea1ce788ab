// Made-up ranks: plain sockets that take part in the handshake, or in part of it, against a transport.
#pragma once

#include <catch2/catch.hpp>

#include "tests/transport/tcp_test_support.h"
#include "transport/tcp/handshake.h"

namespace tcp_test {

using tutti::base::Fd;
using tutti::transport::tcp::Frame;
using tutti::transport::tcp::FrameKind;
using tutti::transport::tcp::Handshake;
using tutti::transport::tcp::Identity;

// A plain socket to the listener of a transport on this host.
inline Fd connect_to(const Transport& transport) {
  tutti::base::Address address = *tutti::base::parse_address("127.0.0.1");
  address.port = tutti::transport::tcp::decode(transport.address(), 0).port;
  tutti::base::Connecting connecting = tutti::base::start_connect(address);
  REQUIRE(connecting.socket);
  until([&] { return tutti::base::connect_error(connecting.socket.get()) == 0; });
  return std::move(connecting.socket);
}

inline Identity identity_of(const TcpOptions& o) { return {o.rank, o.size, o.communicator, o.secret}; }

// Goes on with the handshake of a made-up rank against a transport until it is in this state.
inline void drive(Handshake& handshake, Transport& transport, Handshake::State wanted) {
  until([&] {
    transport.progress();
    const Handshake::State state = handshake.advance();
    INFO(handshake.failure());
    REQUIRE((state == wanted || state != Handshake::State::failed));
    return state == wanted;
  });
}

// A socket to `transport`, which is of rank `to`, that has passed for another rank.
inline Fd pass_for(int rank, int size, Transport& transport, int to = 0) {
  const Identity self = identity_of(options(rank, size));
  Handshake handshake(self, connect_to(transport), to);
  drive(handshake, transport, Handshake::State::proven);
  handshake.choose();
  drive(handshake, transport, Handshake::State::chosen);
  return handshake.take();
}

// A made-up rank's listener, and what the others are told of it.
struct Door {
  Fd listener = tutti::base::listen_everywhere();
  tutti::runtime::Blob address() const {
    tutti::transport::tcp::Endpoints e;
    e.port = tutti::base::local_address(listener.get()).port;
    e.addresses = {*tutti::base::parse_address("127.0.0.1")};
    e.network = tutti::transport::tcp::decode(make_tcp_transport(options(0, 2))->address(), 0).network;
    return encode(e);
  }
  // The next connection; `transport` is turned meanwhile.
  Fd accept(Transport& transport) const {
    Fd socket;
    until([&] {
      transport.progress();
      socket = tutti::base::accept_one(listener.get()).socket;
      return static_cast<bool>(socket);
    });
    return socket;
  }
};

inline Frame claim_frame(std::uint64_t port, const RingGeometry& geometry) {
  Frame frame{};
  frame.kind = FrameKind::claim;
  frame.acknowledged = 1;
  frame.claim = {port, 0, geometry.readers, geometry.slots, geometry.slot_bytes};
  return frame;
}

// Turns progress() until it throws.
inline std::string fault_of(Transport& transport) {
  std::string message;
  until([&] {
    message = error_of([&] { transport.progress(); });
    if (const auto loss = transport.loss(); loss && message.empty()) message = loss->what();
    return !message.empty();
  });
  return message;
}

inline void send_all(int socket, const void* bytes, std::size_t count) {
  const auto* at = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const auto sent = tutti::base::send(socket, at, count);
    if (sent.state == tutti::base::Transfer::State::failed) return;
    at += sent.bytes;
    count -= sent.bytes;
  }
}

}  // namespace tcp_test

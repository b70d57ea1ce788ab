// How two ranks come to agree on a connection: late, busy, leaving and crowded ones.
#include <catch2/catch.hpp>

#include <sys/socket.h>

#include "tests/transport/tcp_test_made_up.h"

using namespace tcp_test;

TEST_CASE("a connection that the higher rank has dropped meanwhile is only an attempt", "[tcp][faults]") {
  const auto lower = make_tcp_transport(options(0, 2));
  const Door door;
  lower->set_peers({lower->address(), door.address()});
  const RingGeometry geometry{1, 2, 64};
  Writer writer(5, geometry, true);
  lower->add_reader(5, writer.ring(), 0, 1, true);
  writer.write();
  const Identity self = identity_of(options(1, 2));
  {
    // The higher rank answers and closes before the lower one looks again.
    Handshake guest(self, door.accept(*lower), Handshake::kAnyone);
    until([&] {
      if (guest.peer() == Handshake::kAnyone) lower->progress();
      REQUIRE(guest.advance() == Handshake::State::pending);
      return guest.peer() == 0;
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  Handshake guest(self, door.accept(*lower), Handshake::kAnyone);
  drive(guest, *lower, Handshake::State::proven);
  guest.choose();
  drive(guest, *lower, Handshake::State::chosen);
  const Frame claim = claim_frame(5, geometry);
  send_all(guest.socket(), &claim, sizeof(claim));
  Frame data{};
  std::size_t bytes = 0;
  until([&] {
    lower->progress();
    bytes +=
        tutti::base::receive(guest.socket(), reinterpret_cast<std::byte*>(&data) + bytes, sizeof(data) - bytes).bytes;
    return bytes == sizeof(data);
  });
  CHECK(data.kind == FrameKind::data);
  CHECK(data.data.bytes == expected_bytes(5, 0, 64));
}

TEST_CASE("a lower rank that leaves during the handshake is no fault until it is needed", "[tcp][faults]") {
  const bool confirmed = GENERATE(false, true);  // by the higher rank, but the lower one has not read it
  CAPTURE(confirmed);
  const auto higher = make_tcp_transport(options(1, 2));
  const Door nobody;
  higher->set_peers({nobody.address(), higher->address()});
  Writer writer(5, {1, 2, 64}, true);
  higher->add_reader(5, writer.ring(), 0, 0, true);
  REQUIRE(higher->find_ring(6, 0, 0, {1, 2, 64}, true));
  {
    const Identity self = identity_of(options(0, 2));
    Handshake lower(self, connect_to(*higher), 1);
    drive(lower, *higher, Handshake::State::proven);
    lower.choose();
    if (confirmed)
      drive(lower, *higher, Handshake::State::chosen);
    else
      lower.advance();
  }
  std::this_thread::sleep_for(milliseconds(20));
  for (int i = 0; i < 1000; ++i) higher->progress();
  writer.write();
  CHECK(contains(fault_of(*higher), "rank 1 lost the connection to rank 0"));
}

TEST_CASE("time counts only while somebody looks", "[tcp][faults]") {
  Group group;
  for (int rank = 0; rank < 2; ++rank) {
    TcpOptions o = options(rank, 2);
    o.connect_timeout = milliseconds(300);
    group.push_back(make_tcp_transport(o));
  }
  introduce(group);
  const int first = GENERATE(0, 1);  // who comes back first
  CAPTURE(first);
  Stream there(group, 1, 0, {1}, {1, 2, 64});
  Stream back(group, 2, 1, {0}, {1, 2, 64});
  std::this_thread::sleep_for(milliseconds(900));  // both compute
  there.writer.write();
  back.writer.write();
  const auto hasty = static_cast<std::size_t>(first);
  for (int i = 0; i < 10; ++i) group[hasty]->progress();
  until([&] {
    progress(group);
    there.readers[0].read();
    back.readers[0].read();
    return there.readers[0].taken() == 1 && back.readers[0].taken() == 1;
  });
}

TEST_CASE("an attempt that stands is not made anew", "[tcp][faults]") {
  const auto lower = make_tcp_transport(options(0, 2));
  const Door door;
  lower->set_peers({lower->address(), door.address()});
  Writer writer(5, {1, 2, 64}, true);
  lower->add_reader(5, writer.ring(), 0, 1, true);
  const Clock::time_point late = Clock::now() + milliseconds(2600);
  until([&] {
    lower->progress();
    std::this_thread::sleep_for(milliseconds(5));
    return Clock::now() > late;
  });
  Fd socket = door.accept(*lower);
  CHECK_FALSE(tutti::base::accept_one(door.listener.get()).socket);
  const Identity self = identity_of(options(1, 2));
  Handshake guest(self, std::move(socket), Handshake::kAnyone);
  drive(guest, *lower, Handshake::State::proven);
  guest.choose();
  drive(guest, *lower, Handshake::State::chosen);
}

TEST_CASE("a crowd of strangers does not push out a rank", "[tcp][faults]") {
  const auto higher = make_tcp_transport(options(1, 2));
  higher->set_peers({{}, higher->address()});
  const Identity self = identity_of(options(0, 2));
  Handshake lower(self, connect_to(*higher), 1);
  drive(lower, *higher, Handshake::State::proven);
  std::vector<Fd> strangers;
  for (int i = 0; i < 120; ++i) {
    strangers.push_back(connect_to(*higher));
    for (int turn = 0; turn < 40; ++turn) higher->progress();
  }
  lower.choose();
  drive(lower, *higher, Handshake::State::chosen);
}

TEST_CASE("the end of a peer is seen though its last bytes come with it", "[tcp][faults]") {
  constexpr int kRanks = 5;  // so many that only sockets with news are read
  const auto transport = make_tcp_transport(options(0, kRanks));
  transport->set_peers(std::vector<tutti::runtime::Blob>(kRanks));
  std::vector<Fd> sockets;
  for (int rank = 1; rank < kRanks; ++rank) sockets.push_back(pass_for(rank, kRanks, *transport));
  for (int i = 0; i < 1000; ++i) transport->progress();
  const Frame claim = claim_frame(5, {1, 2, 64});
  send_all(sockets[2].get(), &claim, sizeof(claim));
  ::shutdown(sockets[2].get(), SHUT_WR);
  std::this_thread::sleep_for(milliseconds(20));
  CHECK(contains(fault_of(*transport), "rank 0 lost the connection to rank 3"));
}

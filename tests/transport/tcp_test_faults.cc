#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>

#include <sodium.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/transport/tcp_test_made_up.h"

using namespace tcp_test;

namespace {

std::string failed_handshake(Transport& transport, const TcpOptions& as) {
  const Identity self = identity_of(as);
  Handshake handshake(self, connect_to(transport), 0);
  until([&] {
    transport.progress();
    return handshake.advance() == Handshake::State::failed;
  });
  return handshake.failure();
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

TEST_CASE("who does not know the secret is not let in", "[tcp][faults]") {
  Group group = make_group(2);
  TcpOptions wrong = options(1, 2);
  wrong.secret[31] = std::byte{1};
  CHECK(contains(failed_handshake(*group[0], wrong), "secret"));
  wrong = options(1, 2);
  wrong.communicator++;
  CHECK(contains(failed_handshake(*group[0], wrong), "another job"));
  wrong = options(1, 3);
  CHECK(contains(failed_handshake(*group[0], wrong), "another job"));
  // Both sides of a pair say so, in time.
  Group pair;
  for (int rank = 0; rank < 2; ++rank) {
    TcpOptions o = options(rank, 2);
    o.secret[0] = static_cast<std::byte>(rank);
    o.connect_timeout = milliseconds(400);
    pair.push_back(make_tcp_transport(o));
  }
  introduce(pair);
  std::array<std::optional<std::string>, 2> reasons;
  run_ranks(2, [&](int rank) {
    reasons[static_cast<std::size_t>(rank)] = pair[static_cast<std::size_t>(rank)]->unreachable(1 - rank);
  });
  for (const auto& reason : reasons) {
    REQUIRE(reason);
    INFO(*reason);
    CHECK(contains(*reason, "secret"));
    CHECK(contains(*reason, "127.0.0.1"));
  }
}

TEST_CASE("another wire version or byte order is refused by name", "[tcp][faults]") {
  using tutti::transport::tcp::Hello;
  const auto transport = make_tcp_transport(options(0, 2));
  const Fd socket = connect_to(*transport);
  Hello hello{};
  hello.magic = tutti::transport::tcp::kMagic;
  hello.version = tutti::transport::tcp::kWireVersion + 1;
  hello.byte_order = tutti::transport::tcp::kByteOrder;
  send_all(socket.get(), &hello, sizeof(hello));
  // The answer is a Hello that says which version this is, without proof, and then the end.
  std::vector<std::byte> answer(1000);
  std::size_t bytes = 0;
  until([&] {
    transport->progress();
    const auto got = tutti::base::receive(socket.get(), answer.data() + bytes, answer.size() - bytes);
    bytes += got.bytes;
    return got.state == tutti::base::Transfer::State::closed;
  });
  REQUIRE(bytes == sizeof(Hello));
  // Fed to a rank that dials, it names both versions.
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
  const Fd other(pair[1]);
  const Identity self = identity_of(options(1, 2));
  Handshake dialer(self, Fd(pair[0]), 0);
  std::memcpy(&hello, answer.data(), sizeof(hello));
  hello.version = 9;
  send_all(other.get(), &hello, sizeof(hello));
  CHECK(dialer.advance() == Handshake::State::failed);
  CHECK(contains(dialer.failure(), "version 9"));
  CHECK(contains(dialer.failure(), "version " + std::to_string(tutti::transport::tcp::kWireVersion)));
}

TEST_CASE("strangers delay nobody", "[tcp][faults]") {
  Group group = make_group(2);
  std::vector<Fd> strangers;
  for (int i = 0; i < 150; ++i) {
    strangers.push_back(connect_to(*group[static_cast<std::size_t>(i % 2)]));
    std::array<char, 200> garbage;
    randombytes_buf(garbage.data(), garbage.size());
    const char* http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    if (i % 3 == 1) send_all(strangers.back().get(), garbage.data(), garbage.size());
    if (i % 3 == 2) send_all(strangers.back().get(), http, std::strlen(http));
    if (i % 10 == 9) send_all(strangers.back().get(), "TUTTItcp", 8);  // knows the magic, then falls silent
    if (i % 20 == 0) progress(group);
  }
  const std::size_t before = open_descriptors();
  Stream stream(group, 1, 0, {1}, {1, 2, 4096});
  until([&] {
    stream.writer.write();
    progress(group);
    stream.readers[0].read();
    return stream.readers[0].taken() == 100;
  });
  CHECK(open_descriptors() < before + 150);
}

TEST_CASE("a killed peer is named", "[tcp][faults]") {
  const bool reset = GENERATE(false, true);  // with bytes of ours unread, its kernel resets the connection
  CAPTURE(reset);
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
  auto own = make_tcp_transport(options(0, 2));
  const auto exchange = [](int socket, const tutti::runtime::Blob& mine) {
    tutti::runtime::Blob theirs(4096);
    if (::write(socket, mine.data(), mine.size()) < 0) ::_exit(1);
    const ssize_t got = ::read(socket, theirs.data(), theirs.size());
    if (got <= 0) ::_exit(2);
    theirs.resize(static_cast<std::size_t>(got));
    return theirs;
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto transport = make_tcp_transport(options(1, 2));
    transport->set_peers({exchange(pair[1], transport->address()), transport->address()});
    if (transport->unreachable(0)) ::_exit(3);
    const RingGeometry geometry{1, 16, 65536};
    transport->find_ring(5, 0, 0, geometry, true);
    transport->progress();
    [[maybe_unused]] const ssize_t said = ::write(pair[1], "r", 1);
    for (;;) ::pause();
  }
  own->set_peers({own->address(), exchange(pair[0], own->address())});
  Writer writer(5, {1, 16, 65536}, true);
  own->add_reader(5, writer.ring(), 0, 1, true);
  CHECK_FALSE(own->unreachable(1));
  char said = 0;
  REQUIRE(::read(pair[0], &said, 1) == 1);
  for (int i = 0; i < 200; ++i) {
    own->progress();
    if (reset) writer.write();
  }
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  const std::string message = fault_of(*own);
  INFO(message);
  CHECK(contains(message, "rank 0 lost the connection to rank 1 at 127.0.0.1:"));
  if (reset) CHECK(contains(message, "(errno 104)"));
  // Without a message that waits for it, that is no fault yet: what it had sent may have been all that was needed.
  CHECK(error_of([&] { own->progress(); }) == (reset ? message : ""));
  CHECK(std::string(own->loss().value().what()) == message);
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST_CASE("a reader asks for no more than its operation takes, so that nothing comes to a writer that has ended",
          "[tcp][faults]") {
  Group group = make_group(2);
  const RingGeometry geometry{1, 4, 64};
  Writer writer(1, geometry, true);
  group[0]->add_reader(1, writer.ring(), 0, 1, true);
  const auto incoming = group[1]->find_ring(1, 0, 0, geometry, true);
  REQUIRE(incoming);
  REQUIRE(incoming->window != nullptr);
  Reader reader(1, *incoming, true);
  const auto move = [&] {
    writer.write();
    progress(group);
    reader.read();
  };
  *incoming->window = {0, 10};
  until([&] {
    move();
    return reader.taken() == 10;
  });
  // Everything is released, but the writer may not go on: messages 10 and later belong to an operation that the reader
  // has not entered, and the writer has had no word that it did not need.
  for (int i = 0; i < 2000; ++i) move();
  CHECK(reader.taken() == 10);
  CHECK_FALSE(group[0]->drained());
  *incoming->window = {10, 1000};
  until([&] {
    move();
    return reader.taken() == 100;
  });
}

TEST_CASE("a peer that leaves in good order is no fault until it is needed", "[tcp][faults]") {
  Group group = make_group(2);
  Stream stream(group, 1, 0, {1}, {1, 2, 64});
  until([&] {
    if (stream.writer.written() < 20) stream.writer.write();
    progress(group);
    stream.readers[0].read();
    return stream.readers[0].taken() == 20;
  });
  group[1]->flush(Clock::now() + std::chrono::seconds(10));
  group[1].reset();
  for (int i = 0; i < 1000; ++i) group[0]->progress();
  group[0]->flush(Clock::now() + std::chrono::seconds(10));
  stream.writer.write();
  const std::string message = fault_of(*group[0]);
  CHECK(contains(message, "rank 0 lost the connection to rank 1"));
  CHECK(contains(message, "has left"));
}

TEST_CASE("flush ends at its deadline, and with the loss of the peer", "[tcp][faults]") {
  Group group = make_group(2);
  Writer writer(1, {1, 2, 64}, true);
  group[0]->add_reader(1, writer.ring(), 0, 1, true);  // rank 1 never asks for the port
  CHECK(group[0]->drained());
  writer.write();
  CHECK_FALSE(group[0]->drained());
  const Clock::time_point start = Clock::now();
  group[0]->flush(start + milliseconds(80));
  CHECK(Clock::now() >= start + milliseconds(60));  // the rest is the destructor's
  CHECK_FALSE(group[0]->drained());
  run_ranks(2, [&](int rank) { group[static_cast<std::size_t>(rank)]->unreachable(1 - rank); });
  group[1].reset();  // leaves without the message
  group[0]->flush(Clock::now() + std::chrono::hours(1));
}

TEST_CASE("ranks that disagree about a port are told", "[tcp][faults]") {
  Group group = make_group(2);
  Writer writer(1, {1, 2, 64}, true);
  group[0]->add_reader(1, writer.ring(), 0, 1, true);
  group[1]->find_ring(1, 0, 0, {1, 2, 128}, true);
  std::string message;
  until([&] {
    group[1]->progress();
    message = error_of([&] { group[0]->progress(); });
    return !message.empty();
  });
  CHECK(contains(message, "disagree about port 1"));
  CHECK(contains(message, "64 bytes"));
  CHECK(contains(message, "128 bytes"));
}

TEST_CASE("memory for incoming rings is bounded", "[tcp][faults]") {
  TcpOptions o = options(0, 2);
  o.memory_limit = 1 << 20;
  const auto transport = make_tcp_transport(o);
  transport->set_peers({transport->address(), transport->address()});
  CHECK(transport->find_ring(1, 1, 0, {1, 2, 256 << 10}, true));
  const std::string message = error_of([&] { transport->find_ring(2, 1, 0, {1, 2, 256 << 10}, true); });
  CHECK(contains(message, "rank 0 has no memory left for the messages of rank 1"));
  CHECK_FALSE(error_of([&] { transport->find_ring(3, 1, 0, {1, 0xffffffff, 0xffffffc0}, true); }).empty());
  CHECK_FALSE(error_of([&] { transport->find_ring(4, 1, 0, {0xffffffff, 1, 64}, true); }).empty());
  CHECK(transport->find_ring(5, 1, 0, {1, 2, 64}, true));
}

TEST_CASE("no descriptor is left behind", "[tcp][faults]") {
  { Group warm_up = make_group(2); }
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 200; ++round) {
    Group group = make_group(2);
    if (round % 2 == 0) {
      Stream stream(group, 1, 0, {1}, {1, 2, 64});
      until([&] {
        stream.writer.write();
        progress(group);
        return stream.readers[0].read();
      });
    }
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("garbage after a valid handshake ends in an error, never in a crash", "[tcp][faults][fuzz]") {
  std::uint64_t seed = GENERATE(1, 2, 3);
  const auto random = [&seed] {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
  };
  for (int round = 0; round < 120; ++round) {
    const auto transport = make_tcp_transport(options(0, 2));
    transport->set_peers({transport->address(), {}});
    Writer writer(7, {2, 4, 256}, true);
    transport->add_reader(7, writer.ring(), 1, 1, true);
    REQUIRE(transport->find_ring(8, 1, 0, {1, 2, 1024}, true));
    for (int i = 0; i < 3; ++i) writer.write();
    Fd socket = pass_for(1, 2, *transport);
    std::vector<std::byte> bytes;
    const auto append = [&bytes](const void* data, std::size_t count) {
      const auto* at = static_cast<const std::byte*>(data);
      bytes.insert(bytes.end(), at, at + count);
    };
    const int kind = round % 3;
    for (int i = 0; i < 40; ++i) {
      Frame frame{};
      if (kind == 0) {  // noise
        for (std::size_t b = 0; b < sizeof(frame); ++b)
          reinterpret_cast<std::byte*>(&frame)[b] = static_cast<std::byte>(random());
      } else {  // almost right, with small numbers
        frame.kind = static_cast<FrameKind>(1 + random() % 5);
        if (frame.kind == FrameKind::goodbye && random() % 4 != 0) frame.kind = FrameKind::data;
        frame.port = static_cast<std::uint32_t>(random() % 3);
        if (frame.kind == FrameKind::claim) {
          frame.acknowledged = 1;
          frame.claim = {7 + random() % 2, 1, 2, 4, 256};
          if (i == 0) frame.port = 0, frame.claim.id = 7;
        }
        if (frame.kind == FrameKind::data)
          frame.data = {std::uint64_t{kEpoch} << 48 | (1 + random() % 5), static_cast<std::uint32_t>(random() % 1400),
                        0, 0};
        if (frame.kind == FrameKind::open) {
          frame.acknowledged = 1;
          frame.claim = {tutti::runtime::kLastingPort + random() % 2, 0, 1, 2, 256};
        }
        if (frame.kind != FrameKind::claim && frame.kind != FrameKind::open && random() % 4 == 0)
          frame.port |= tutti::transport::tcp::kOpened;
        if (frame.kind == FrameKind::credit) frame.credit = {random() % 6, {}};
        if (random() % 8 == 0)
          reinterpret_cast<std::byte*>(&frame)[random() % sizeof(frame)] = static_cast<std::byte>(random());
      }
      append(&frame, sizeof(frame));
      if (kind == 2 && frame.kind == FrameKind::data)
        bytes.resize(bytes.size() + std::min<std::size_t>(frame.data.bytes, 4096));
    }
    std::string message;
    std::size_t sent = 0;
    until([&] {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 100, bytes.size() - sent);
      if (piece > 0) send_all(socket.get(), bytes.data() + sent, piece);
      sent += piece;
      if (sent == bytes.size()) {
        socket.reset();
        writer.write();  // if what it sent made sense and ended in a goodbye, this is what it is missed for
      }
      message = error_of([&] { transport->progress(); });
      return !message.empty();
    });
    CAPTURE(round, message);
    CHECK(contains(message, "rank 1"));
  }
}

// The rendezvous among strangers: garbage, silence, wrong secrets, ranks that never come or come twice.
#include "src/runtime/rendezvous.h"

#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "src/base/socket.h"
#include "src/runtime/engine.h"
#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Connects to a local port and sends bytes; keeps the connection until the object goes.
class Stranger {
 public:
  Stranger(std::uint16_t port, const Bytes& bytes) {
    fd_ = std::move(base::start_connect(base::resolve("127.0.0.1", port).at(0)).socket);
    for (int i = 0; i < 2000 && fd_; ++i) {
      if (bytes.empty() || ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0) break;
      if (errno != EAGAIN && errno != ENOTCONN) break;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

 private:
  base::Fd fd_;
};

Bytes random_bytes(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes text_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

Bytes frame_of(std::uint8_t type, const Bytes& payload) {
  return Writer().u32(static_cast<std::uint32_t>(payload.size() + 1)).u8(type).raw(payload).bytes();
}

std::vector<std::string> meet_all(int size, const std::function<Job(int)>& job, milliseconds limit = seconds(60)) {
  const auto deadline = in(limit);
  return on_threads(size, [&](int rank) {
    const auto plane = ControlPlane::connect(job(rank), deadline, {});
    plane->all_gather({}, deadline);
    plane->leave(0);
  });
}

}  // namespace

TEST_CASE("ranks meet although strangers call", "[rendezvous]") {
  const std::string kind =
      GENERATE(as<std::string>{}, "random", "scanner", "half greeting", "silent", "crowd", "replayed proof");
  INFO(kind);
  std::mt19937 random(7);
  const UniqueId id = UniqueId::create();
  const std::uint16_t port = job_from_unique_id(id, 0, 2).meeting.port;
  std::vector<Stranger> strangers;
  const Bytes hello = frame_of(kGreeting, greeting(Purpose::meeting, random_nonce()));
  const int count = kind == "crowd" ? 600 : kind == "silent" ? 200 : 50;
  for (int i = 0; i < count; ++i) {
    if (kind == "random") strangers.emplace_back(port, random_bytes(random, 1 + random() % 400));
    if (kind == "scanner") strangers.emplace_back(port, text_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    if (kind == "half greeting") strangers.emplace_back(port, Bytes(hello.begin(), hello.begin() + 1 + i));
    if (kind == "silent" || kind == "crowd") strangers.emplace_back(port, Bytes{});
    if (kind == "replayed proof") {
      Bytes bytes = hello;
      const Bytes proof = frame_of(kProof, random_bytes(random, 300));
      bytes.insert(bytes.end(), proof.begin(), proof.end());
      strangers.emplace_back(port, bytes);
    }
  }
  std::atomic<bool> met{false};
  std::thread noise([&] {  // and they go on calling
    std::mt19937 noisy(11);
    while (!met) Stranger(port, random_bytes(noisy, 1 + noisy() % 100));
  });
  const auto failures = meet_all(4, [&](int rank) { return job_from_unique_id(id, rank, 4); });
  met = true;
  noise.join();
  CHECK(failures == std::vector<std::string>(4));
}

TEST_CASE("a wrong secret is an error at once, on the rank that has it", "[rendezvous]") {
  const std::uint16_t port = free_port();
  std::atomic<bool> refused{false};
  const auto failures = on_threads(4, [&](int rank) {
    if (rank == 3) {
      std::string text;
      try {
        ControlPlane::connect(launched(3, 3 + 1, port, "127.0.0.1", "another"), soon(), {});
      } catch (const Error& error) {
        text = error.what();
        CHECK(error.code() == ErrorCode::invalid_argument);
      }
      refused = true;
      throw std::runtime_error(text);
    }
    // The others wait on undisturbed until the right rank 3 comes.
    ControlPlane::connect(launched(rank, 4, port), in(milliseconds(700)), {});
  });
  CHECK(refused);
  CHECK_THAT(failures[3], Contains("rank 3: its secret is not that of the job at 127.0.0.1:" + std::to_string(port)));
  for (int rank = 0; rank < 3; ++rank) CHECK_THAT(failures[std::size_t(rank)], Contains("for rank 3 of 4"));
}

TEST_CASE("ranks that never come are named at the deadline", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(9, [&](int rank) {
    if (rank == 1 || (rank >= 5 && rank <= 7)) return;
    try {
      connect(id, rank, 9, {}, in(milliseconds(600)));
    } catch (const Error& error) {
      require(error.code() == ErrorCode::timeout, "a timeout");
      throw;
    }
  });
  for (const int rank : {0, 2, 3, 4, 8})
    CHECK_THAT(failures[std::size_t(rank)], Contains("rank " + std::to_string(rank) + " waited ") &&
                                                Contains(" for ranks 1, 5-7 of 9; 5 connected; meeting at "));
}

TEST_CASE("a rank that gives up may come again", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  CHECK_THROWS_WITH(connect(id, 1, 2, {}, in(milliseconds(100))), Contains("for rank 0 of 2; 1 connected"));
  CHECK(meet_all(2, [&](int rank) { return job_from_unique_id(id, rank, 2); }) == std::vector<std::string>(2));
}

TEST_CASE("two processes of one rank end the meeting for all", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(4, [&](int i) { connect(id, i == 3 ? 1 : i, 4); });
  for (const std::string& failure : failures)
    CHECK_THAT(failure, Contains("two processes are rank 1: pid ") && Contains(" on host "));
}

TEST_CASE("different sizes end the meeting for all, with both", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(3, [&](int rank) { connect(id, rank, rank == 2 ? 5 : 3); });
  for (const std::string& failure : failures)
    CHECK_THAT(failure, Contains("the ranks disagree about their number") && Contains("size 3") && Contains("size 5") &&
                            Contains("rank 2 (pid "));
}

TEST_CASE("another wire version is refused by name, for all", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(2, [&](int rank) {
    if (rank == 0) {
      connect(id, 0, 2);
      return;
    }
    std::this_thread::sleep_for(milliseconds(50));
    const Job job = job_from_unique_id(id, 1, 2);
    Hello hello = Hello::of_this_process(1, 2, "");
    hello.wire = 99;
    hello.library = "9.9.9";
    std::string near;
    meet(job, hello, soon(), near);
  });
  for (const std::string& failure : failures)
    CHECK_THAT(failure, Contains("rank 1 at ") && Contains("version 9.9.9") && Contains("wire version 99"));
}

TEST_CASE("ranks of a launched job meet at a port, in any order, more than once", "[rendezvous]") {
  const std::string host = GENERATE(as<std::string>{}, "127.0.0.1", "::1", "localhost");
  const std::uint16_t port = free_port();
  for (int round = 0; round < 3; ++round) {
    const auto failures = on_threads(5, [&](int rank) {
      if (rank == round) std::this_thread::sleep_for(milliseconds(30));
      const auto plane = ControlPlane::connect(launched(rank, 5, port, host), soon(), {});
      plane->all_gather({}, soon());
      plane->leave(0);
    });
    CHECK(failures == std::vector<std::string>(5));
  }
}

TEST_CASE("the way over TCP works without the short cut within a host", "[rendezvous]") {
  const std::string host = GENERATE(as<std::string>{}, "127.0.0.1", "::1");
  const auto engine = Engine::acquire();
  const Secret secret = random_secret();
  base::Fd tcp = base::listen_everywhere();
  const std::uint16_t port = base::local_address(tcp.get()).port;
  const auto door = Meeting::open(engine, std::move(tcp), {}, secret, "tcp only", "here");
  const auto failures = on_threads(3, [&](int rank) {
    Job job = launched(rank, 3, port, host, "", "tcp only");
    job.meeting.secret = secret;
    std::string near;
    const Roster roster = meet(job, Hello::of_this_process(rank, 3, "tcp only"), soon(), near);
    require(roster.members.size() == 3, "three members");
    require(near == (host == "::1" ? "[::1]:" : "127.0.0.1:") + std::to_string(port), near);
    for (int other = 0; other < 3; ++other) require(roster.members[std::size_t(other)].rank == other, "in order");
  });
  CHECK(failures == std::vector<std::string>(3));
}

TEST_CASE("ranks of one host meet at a name, without any port", "[rendezvous]") {
  const auto failures = meet_all(3, [&](int rank) {
    Job job = launched(rank, 3, 0, "", "mpirun 17", "Open MPI 17");
    job.meeting.hosts.clear();
    return job;
  });
  CHECK(failures == std::vector<std::string>(3));
}

TEST_CASE("a port in use is an error that says so", "[rendezvous]") {
  const base::Fd taken = base::listen_everywhere();
  const std::string port = std::to_string(base::local_address(taken.get()).port);
  CHECK_THROWS_WITH(
      ControlPlane::connect(launched(0, 2, base::local_address(taken.get()).port), in(milliseconds(100)), {}),
      Contains("cannot listen on port " + port) && Contains("Address already in use") &&
          Contains("choose another port"));
}

TEST_CASE("a meeting that nobody holds is an error that says where", "[rendezvous]") {
  const std::uint16_t port = free_port();
  CHECK_THROWS_WITH(
      ControlPlane::connect(launched(1, 2, port), in(milliseconds(300)), {}),
      Contains("rank 1 could not reach rank 0, which opens the meeting at 127.0.0.1:" + std::to_string(port)) &&
          Contains("Connection refused") && Contains("is rank 0 running"));
  CHECK_THROWS_WITH(ControlPlane::connect(launched(1, 2, port, "no-such-host.invalid"), in(milliseconds(300)), {}),
                    Contains("no-such-host.invalid"));
}

TEST_CASE("a unique id that is used up is refused long before the deadline", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  CHECK(meet_all(2, [&](int rank) { return job_from_unique_id(id, rank, 2); }) == std::vector<std::string>(2));
  CHECK_THROWS_WITH(connect(id, 0, 2), Contains("nobody answers for the process that made the unique id") &&
                                           Contains("have met or given up"));
}

TEST_CASE("another job at the same port is waited for, then named", "[rendezvous]") {
  const std::uint16_t port = free_port();
  const auto failures = on_threads(2, [&](int rank) {
    const Job job = launched(rank, 2, port, "127.0.0.1", "secret", rank ? "restart 1" : "restart 0");
    ControlPlane::connect(job, in(milliseconds(600)), {});
  });
  CHECK_THAT(failures[1], Contains("is that of job 'restart 0', this rank is of job 'restart 1'"));
  CHECK_THAT(failures[0], Contains("for rank 1 of 2"));
}

TEST_CASE("a door out of descriptors recovers", "[rendezvous]") {
  const UniqueId id = UniqueId::create();
  const std::uint16_t port = job_from_unique_id(id, 0, 2).meeting.port;
  {
    std::vector<Stranger> strangers;
    std::vector<base::Fd> hoard;
    for (int i = 0; i < 20; ++i) strangers.emplace_back(port, Bytes{});
    for (int fd; (fd = ::dup(0)) >= 0 && hoard.size() < 100'000;) hoard.emplace_back(fd);
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(meet_all(2, [&](int rank) { return job_from_unique_id(id, rank, 2); }) == std::vector<std::string>(2));
}

TEST_CASE("the frame parser takes any bytes in any pieces", "[wire]") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    const base::Fd out(pair[0]);
    Channel channel(base::Fd(pair[1]), 64);
    // Some good frames, then noise.
    Bytes stream;
    std::vector<Bytes> sent;
    for (unsigned i = 0; i < random() % 5; ++i) {
      sent.push_back(random_bytes(random, random() % 60));
      const Bytes frame = frame_of(static_cast<std::uint8_t>(i), sent.back());
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    Bytes noise = random_bytes(random, random() % 200);
    if (noise.size() >= 4) noise[2] = std::byte{1};  // a length of 65536 or more
    stream.insert(stream.end(), noise.begin(), noise.end());
    std::vector<Bytes> got;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t piece = std::min<std::size_t>(stream.size() - at, 1 + random() % 30);
      REQUIRE(::send(out.get(), stream.data() + at, piece, MSG_NOSIGNAL) == ssize_t(piece));
      at += piece;
      REQUIRE(channel.receive());
      while (const auto frame = channel.next()) got.push_back(frame->payload);
    }
    CHECK(got == sent);
    CHECK(channel.broken() == (noise.size() >= 4));
  }
}

TEST_CASE("decoders take any bytes", "[wire]") {
  std::mt19937 random(5);
  const Bytes hello = encode(Hello::of_this_process(1, 2, "job"));
  Roster roster;
  roster.members.resize(3);
  const Bytes list = encode(roster);
  REQUIRE(decode_hello(hello));
  REQUIRE(decode_roster(list));
  for (std::size_t cut = 0; cut < hello.size(); ++cut)
    CHECK_FALSE(decode_hello(Bytes(hello.begin(), hello.begin() + std::ptrdiff_t(cut))));
  for (std::size_t cut = 0; cut < list.size(); ++cut)
    CHECK_FALSE(decode_roster(Bytes(list.begin(), list.begin() + std::ptrdiff_t(cut))));
  int readable = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = round % 2 ? hello : list;
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    readable += decode_hello(bytes).has_value() + decode_roster(bytes).has_value();
    const Bytes noise = random_bytes(random, random() % 300);
    readable += decode_hello(noise).has_value() + decode_roster(noise).has_value();
  }
  CHECK(readable > 0);  // flips in a name still decode; the point is that nothing crashed
}

TEST_CASE("two jobs that differ in nothing but their port do not meet", "[rendezvous]") {
  const std::uint16_t one = free_port(), two = free_port();
  const auto failures = on_threads(5, [&](int i) {
    const bool first = i < 2;
    const auto plane = ControlPlane::connect(launched(first ? i : i - 2, first ? 2 : 3, first ? one : two), soon(), {});
    plane->all_gather({}, soon());
    plane->leave(0);
  });
  CHECK(failures == std::vector<std::string>(5));
}

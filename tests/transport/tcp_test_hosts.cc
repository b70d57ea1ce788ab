// Two hosts: two network namespaces joined by a veth pair, one process in each. Needs root and iproute2; says so and
// passes where it cannot be done.
#include <catch2/catch.hpp>

#include <array>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/transport/tcp_test_support.h"

using namespace tcp_test;

namespace {

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// Two namespaces, joined; gone when this is.
class TwoHosts {
 public:
  TwoHosts() {
    ready_ = ::geteuid() == 0 && run("ip netns add " + name(0)) && run("ip netns add " + name(1)) &&
             run("ip -n " + name(0) + " link add eth0 type veth peer name eth0 netns " + name(1));
    for (int host = 0; host < 2 && ready_; ++host)
      ready_ = run("ip -n " + name(host) + " link set lo up") && run("ip -n " + name(host) + " link set eth0 up");
  }
  ~TwoHosts() {
    for (int host = 0; host < 2; ++host) run("ip netns del " + name(host));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool ready() const { return ready_; }
  std::string name(int host) const { return "tutti-test-" + std::to_string(owner_) + "-" + std::to_string(host); }
  bool add(int host, const std::string& what) const { return run("ip -n " + name(host) + " " + what); }
  // The kernel gives these a second or two after the link is up, when it has seen no duplicate.
  bool have_link_local() const {
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(8);
    for (int host = 0; host < 2; ++host)
      while (!run("ip -n " + name(host) + " -6 addr show dev eth0 scope link -tentative | grep fe80")) {
        if (Clock::now() > deadline) return false;
        std::this_thread::sleep_for(milliseconds(50));
      }
    return true;
  }

 private:
  pid_t owner_ = ::getpid();  // not the children's
  bool ready_ = false;
};

tutti::runtime::Blob swap_addresses(int socket, const tutti::runtime::Blob& mine) {
  tutti::runtime::Blob theirs(8192);
  if (::write(socket, mine.data(), mine.size()) < 0) throw std::runtime_error("no partner");
  const ssize_t got = ::read(socket, theirs.data(), theirs.size());
  if (got <= 0) throw std::runtime_error("no partner");
  theirs.resize(static_cast<std::size_t>(got));
  return theirs;
}

// What one rank does in its namespace: both directions, 300 messages each.
void play(int rank, int socket) {
  const auto transport = make_tcp_transport(options(rank, 2));
  std::vector<tutti::runtime::Blob> addresses(2);
  addresses[static_cast<std::size_t>(rank)] = transport->address();
  addresses[static_cast<std::size_t>(1 - rank)] = swap_addresses(socket, transport->address());
  transport->set_peers(addresses);
  if (const auto reason = transport->unreachable(1 - rank)) throw std::runtime_error(*reason);
  const RingGeometry geometry{1, 3, 16384};
  Writer writer(static_cast<std::uint64_t>(10 + rank), geometry, true);
  transport->add_reader(static_cast<std::uint64_t>(10 + rank), writer.ring(), 0, 1 - rank, true);
  const auto port = static_cast<std::uint64_t>(11 - rank);
  Reader reader(port, *transport->find_ring(port, 1 - rank, 0, geometry, true), true);
  until([&] {
    if (writer.written() < 300) writer.write();
    transport->progress();
    reader.read();
    return reader.taken() == 300 && writer.written() == 300;
  });
  transport->flush(Clock::now() + std::chrono::seconds(20));
}

// 0 when all went well.
int play_in(const std::string& network, int rank, int socket) {
  try {
    const int fd = ::open(("/var/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) return 2;
    ::close(fd);
    play(rank, socket);
    return 0;
  } catch (const std::exception& error) {
    const std::string line = std::string(error.what()) + "\n";
    return ::write(STDERR_FILENO, line.data(), line.size()) > 0 ? 1 : 3;
  }
}

void play_on(const TwoHosts& hosts) {
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
  std::array<pid_t, 2> children{};
  for (int rank = 0; rank < 2; ++rank) {
    children[static_cast<std::size_t>(rank)] = ::fork();
    REQUIRE(children[static_cast<std::size_t>(rank)] >= 0);
    if (children[static_cast<std::size_t>(rank)] != 0) continue;
    ::close(pair[static_cast<std::size_t>(1 - rank)]);
    ::_exit(play_in(hosts.name(rank), rank, pair[static_cast<std::size_t>(rank)]));
  }
  ::close(pair[0]);
  ::close(pair[1]);
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

}  // namespace

TEST_CASE("ranks on two hosts meet by whatever address works", "[tcp][hosts]") {
  const TwoHosts hosts;
  if (!hosts.ready()) {
    WARN("skipped: making network namespaces needs root, iproute2 and a kernel that lets us");
    return;
  }
  SECTION("IPv4, with one address that is the same on both, as container bridges have it") {
    for (int host = 0; host < 2; ++host) {
      CHECK(hosts.add(host, "addr add 10.77.0." + std::to_string(host + 1) + "/24 dev eth0"));
      CHECK(hosts.add(host, "addr add 172.17.0.1/16 dev lo"));
    }
    play_on(hosts);
  }
  SECTION("IPv6 link-local addresses alone") {
    if (!hosts.have_link_local()) {
      WARN("skipped: the interfaces get no IPv6 link-local addresses here");
      return;
    }
    play_on(hosts);
  }
  SECTION("an address that leads nowhere comes first") {
    for (int host = 0; host < 2; ++host) {
      const std::string n = std::to_string(host + 1);
      CHECK(hosts.add(host, "link add dead0 type veth peer name dead1"));
      CHECK(hosts.add(host, "link set dead1 up"));
      CHECK(hosts.add(host, "addr add 10.66.0." + n + "/24 dev dead0"));  // same subnet, no wire between them
      hosts.add(host, "link set dead0 up");
      CHECK(hosts.add(host, "addr add 10.77.0." + n + "/24 dev eth0"));
    }
    play_on(hosts);
  }
}

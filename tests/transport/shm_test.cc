// The door that hands out a rank's memory: to those who know the secret, whatever strangers do.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/runtime/control_ranks.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/shm.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::transport;
using testing::FewDescriptors;

namespace {

void knock(int socket, const DoorName& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0);
}

base::Fd knock(const DoorName& name) {
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  knock(socket.get(), name);
  return socket;
}

}  // namespace

TEST_CASE("a door hands its descriptor to those who know the secret, past silent and noisy strangers") {
  const auto shared = std::make_shared<const base::Fd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::array<std::byte, 32> secret{};
  secret[3] = std::byte{7};
  FdDoor door(
      runtime::Engine::acquire(), [&](std::uint64_t number) { return number == 77 ? shared : nullptr; }, secret);

  std::vector<base::Fd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(knock(door.name()));
    if (i % 2 == 0) {
      const std::string noise(static_cast<std::size_t>(1 + i), 'x');
      REQUIRE(::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0);
    }
  }
  const base::Fd got = fetch_fd(door.name(), secret, 77, 5);
  struct stat a {
  }, b{};
  REQUIRE(::fstat(got.get(), &a) == 0);
  REQUIRE(::fstat(shared->get(), &b) == 0);
  CHECK(a.st_ino == b.st_ino);

  std::array<std::byte, 32> wrong = secret;
  wrong[0] = std::byte{1};
  CHECK_THROWS_WITH(fetch_fd(door.name(), wrong, 77, 5), Catch::Contains("rank 5"));
  CHECK_THROWS_WITH(fetch_fd(door.name(), secret, 78, 5), Catch::Contains("rank 5"));
  CHECK_NOTHROW(fetch_fd(door.name(), secret, 77, 5));
}

TEST_CASE("a door that is closed says which rank cannot be reached") {
  DoorName name{};
  {
    const FdDoor door(runtime::Engine::acquire(), [](std::uint64_t) { return nullptr; }, {});
    name = door.name();
  }
  CHECK_THROWS_WITH(fetch_fd(name, {}, 0, 3), Catch::Contains("rank 3") && Catch::Contains("TUTTI_TRANSPORT=tcp"));
}

TEST_CASE("a crowd of silent visitors keeps nobody out") {
  const auto shared = std::make_shared<const base::Fd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const FdDoor door(runtime::Engine::acquire(), [shared](std::uint64_t) { return shared; }, {});
  std::vector<base::Fd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(knock(door.name()));
  CHECK_NOTHROW(fetch_fd(door.name(), {}, 0, 1));
}

TEST_CASE("a door without descriptors for its visitors waits without using the processor, then lets them in") {
  const auto shared = std::make_shared<const base::Fd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto engine = runtime::Engine::acquire();
  const FdDoor door(engine, [shared](std::uint64_t) { return shared; }, {});
  std::atomic<bool> known{false};
  clockid_t clock{};
  engine->post([&] {
    ::pthread_getcpuclockid(::pthread_self(), &clock);
    known = true;
  });
  while (!known) std::this_thread::yield();
  base::Fd visitor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool quiet = false;
  {
    const FewDescriptors none(0);
    knock(visitor.get(), door.name());
    const auto used = [&] {
      timespec time{};
      ::clock_gettime(clock, &time);
      return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    };
    // A thread that is told of the visitor again and again has no stretch without a nanosecond of work.
    for (int i = 0; i < 200 && !quiet; ++i) {
      const auto before = used();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      quiet = i > 2 && used() == before;
    }
  }
  CHECK(quiet);
  CHECK_NOTHROW(fetch_fd(door.name(), {}, 0, 1));  // queues behind the visitor
}

TEST_CASE("who has no number left for the descriptor it fetches is told so") {
  const auto shared = std::make_shared<const base::Fd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const FdDoor door(runtime::Engine::acquire(), [shared](std::uint64_t) { return shared; }, {});
  testing::Child child([&] {
    const FewDescriptors few(1);
    fetch_fd(door.name(), {}, 0, 4);
  });
  const std::string text = child.wait();
  CHECK_THAT(text, Catch::Contains("cannot map the shared memory of rank 4") && Catch::Contains("errno 24") &&
                       Catch::Contains("raise the limit with `ulimit -n`"));
}

TEST_CASE("/proc gives the memory of a process, and nothing but memory of the right size") {
  const base::Fd memory(::memfd_create("tutti", MFD_CLOEXEC)), other(::memfd_create("another", MFD_CLOEXEC));
  REQUIRE(::ftruncate(memory.get(), 8192) == 0);
  REQUIRE(::ftruncate(other.get(), 8192) == 0);
  const ProcPlace place = ProcPlace::of(memory);
  const base::Fd opened = open_memory(place, place, 8192);
  struct stat a {
  }, b{};
  REQUIRE(::fstat(memory.get(), &a) == 0);
  REQUIRE(::fstat(opened.get(), &b) == 0);
  CHECK(a.st_ino == b.st_ino);

  CHECK_FALSE(open_memory(place, place, 4096));
  CHECK_FALSE(open_memory(ProcPlace::of(other), place, 8192));
  ProcPlace elsewhere = place;
  elsewhere.pid_namespace += 1;  // there the number may be another process's
  CHECK_FALSE(open_memory(elsewhere, place, 8192));
  ProcPlace nobody = place;
  nobody.pid = 1 << 30;
  CHECK_FALSE(open_memory(nobody, place, 8192));
  CHECK_FALSE(open_memory(ProcPlace{}, place, 8192));
}

namespace {

constexpr std::uint64_t kNonce = 4711;

// One rank's part of a communicator of two ranks.
struct Part {
  explicit Part(int rank) : arena(std::make_shared<runtime::Arena>(kNonce, rank, 1 << 20)) {
    ShmOptions options;
    options.rank = rank;
    options.communicator = kNonce;
    options.arena = arena;
    options.engine = runtime::Engine::acquire();
    transport = make_shm_transport(options);
  }
  ShmAddress address() const {
    ShmAddress address;
    std::memcpy(&address, transport->address().data(), sizeof address);
    return address;
  }

  std::shared_ptr<runtime::Arena> arena;
  std::unique_ptr<runtime::Transport> transport;
};

runtime::Blob blob_of(const ShmAddress& address) {
  runtime::Blob blob(sizeof address);
  std::memcpy(blob.data(), &address, sizeof address);
  return blob;
}

// In a process of its own: whether rank 0's arena is reached at the address that the pipe gives, also with wrong words
// about /proc, and not without a way. The exit status counts what is not as it should be.
int reach_from_outside(int pipe) {
  ShmAddress zero;
  if (::read(pipe, &zero, sizeof zero) != sizeof zero) return 100;
  const Part mine(1);
  int wrong = 0;
  const auto reaches = [&](const ShmAddress& address, bool expected) {
    const Part fresh(1);
    fresh.transport->set_peers({blob_of(address), blob_of(fresh.address())});
    wrong += fresh.transport->unreachable(0).has_value() == expected;
  };
  ShmAddress no_door = zero, no_proc = zero, wrong_proc = zero, no_way = zero;
  no_door.door = {};
  no_proc.proc = {};
  wrong_proc.proc = mine.address().proc;  // memory of the right size and the wrong rank
  no_way.door = {};
  no_way.proc = wrong_proc.proc;
  reaches(zero, true);
  reaches(no_door, true);
  reaches(no_proc, true);
  reaches(wrong_proc, true);
  reaches(no_way, false);
  return wrong;
}

}  // namespace

TEST_CASE("another process reaches an arena through /proc, and through the door where that fails") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(reach_from_outside(ends[0]));
  const Part zero(0);
  const ShmAddress address = zero.address();
  REQUIRE(::write(ends[1], &address, sizeof address) == sizeof address);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

// The engine's thread: descriptors, tasks, timers, drivers, fork.
#include "src/runtime/engine.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

// Waits until `fact` holds; false after 20 s.
bool comes(const std::function<bool()>& fact) {
  for (const auto limit = in(std::chrono::seconds(20)); std::chrono::steady_clock::now() < limit;) {
    if (fact()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    names.push_back(name);
  }
  return names;
}

std::size_t engines() {
  const auto names = thread_names();
  return std::size_t(std::count(names.begin(), names.end(), "tutti-engine"));
}

struct CountingDriver : Driver {
  std::atomic<int> drives{0};
  std::atomic<State> state{State::idle};
  State drive() override {
    ++drives;
    return state;
  }
};

}  // namespace

TEST_CASE("all users share one engine, and its thread ends with the last", "[engine]") {
  {
    const auto one = Engine::acquire();
    const auto two = Engine::acquire();
    CHECK(one == two);
    CHECK(comes([] { return engines() == 1; }));
    CHECK_FALSE(one->on_thread());
  }
  CHECK(comes([] { return engines() == 0; }));
}

TEST_CASE("a process with an engine is one that barriers reach", "[engine]") {
  // Registered before there is a second thread: later it would take a grace period of the kernel's.
  constexpr int kGetRegistrations = 1 << 9, kGlobalExpedited = 1 << 2;  // of <linux/membarrier.h>, from Linux 6.3 on
  if (::syscall(SYS_membarrier, kGetRegistrations, 0, 0) < 0) return;
  const auto engine = Engine::acquire();
  CHECK((::syscall(SYS_membarrier, kGetRegistrations, 0, 0) & kGlobalExpedited) != 0);
}

TEST_CASE("the last user may let go on the engine's own thread", "[engine]") {
  auto engine = Engine::acquire();
  Engine* const raw = engine.get();
  auto holder = std::make_shared<std::shared_ptr<Engine>>(std::move(engine));
  raw->post([holder] {
    std::this_thread::sleep_for(milliseconds(20));
    holder->reset();
  });
  holder.reset();
  CHECK(comes([] { return engines() == 0; }));
}

TEST_CASE("a watched descriptor is served until it is no longer watched", "[engine]") {
  const auto engine = Engine::acquire();
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  std::atomic<int> got{0};
  engine->watch(pair[0], EPOLLIN, [&](std::uint32_t events) {
    char byte;
    if ((events & EPOLLIN) && ::recv(pair[0], &byte, 1, MSG_DONTWAIT) == 1) ++got;
  });
  for (int i = 0; i < 10; ++i) REQUIRE(::send(pair[1], "x", 1, MSG_NOSIGNAL) == 1);
  CHECK(comes([&] { return got == 10; }));
  engine->rewatch(pair[0], 0);
  engine->unwatch(pair[0]);
  REQUIRE(::send(pair[1], "x", 1, MSG_NOSIGNAL) == 1);
  std::atomic<bool> passed{false};
  engine->post([&] { passed = true; });
  CHECK(comes([&] { return passed.load(); }));
  CHECK(got == 10);
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST_CASE("unwatch returns only after the callback", "[engine]") {
  const auto engine = Engine::acquire();
  for (int round = 0; round < 200; ++round) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    auto inside = std::make_unique<std::atomic<int>>(0);
    engine->watch(pair[0], EPOLLIN, [&pair, in_use = inside.get()](std::uint32_t) {
      ++*in_use;
      char byte;
      [[maybe_unused]] const ssize_t read = ::recv(pair[0], &byte, 1, MSG_DONTWAIT);
      --*in_use;
    });
    REQUIRE(::send(pair[1], "x", 1, MSG_NOSIGNAL) == 1);
    if (round % 2) std::this_thread::yield();
    engine->unwatch(pair[0]);
    CHECK(*inside == 0);
    inside.reset();  // a late callback would use it after this
    ::close(pair[0]);
    ::close(pair[1]);
  }
}

TEST_CASE("tasks run in order, timers when they are due", "[engine]") {
  const auto engine = Engine::acquire();
  std::vector<int> order;
  std::atomic<int> done{0};
  engine->after(milliseconds(60), [&] { order.push_back(4), ++done; });
  engine->after(milliseconds(20), [&] { order.push_back(3), ++done; });
  engine->post([&] { order.push_back(0), ++done; });
  engine->post([&] {
    order.push_back(1), ++done;
    engine->post([&] { order.push_back(2), ++done; });  // from the thread itself: at once
  });
  CHECK(comes([&] { return done == 5; }));
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("a driver is polled until it is idle and again after wake", "[engine]") {
  const auto engine = Engine::acquire();
  CountingDriver driver;
  driver.state = Driver::State::busy;
  engine->add(&driver);
  CHECK(comes([&] { return driver.drives > 500; }));  // also when it has gone over to sleeping
  driver.state = Driver::State::moved;
  CHECK(comes([&] { return driver.drives > 5000; }));
  driver.state = Driver::State::idle;
  int seen = -1;
  CHECK(comes([&] { return std::exchange(seen, driver.drives.load()) == driver.drives; }));
  engine->wake();
  CHECK(comes([&] { return driver.drives == seen + 1; }));
  engine->remove(&driver);
  engine->wake();
  std::atomic<bool> passed{false};
  engine->post([&] { passed = true; });
  CHECK(comes([&] { return passed.load(); }));
  CHECK(driver.drives == seen + 1);
}

TEST_CASE("a driver is polled soon after wake_soon, however often that is called", "[engine]") {
  const auto engine = Engine::acquire();
  CountingDriver driver;
  engine->add(&driver);
  CHECK(comes([&] { return driver.drives > 0; }));
  for (int time = 0; time < 3; ++time) {
    const int before = driver.drives;
    for (int call = 0; call < 10; ++call) engine->wake_soon();
    CHECK(comes([&] { return driver.drives > before; }));
  }
  engine->remove(&driver);
}

TEST_CASE("a callback that throws is logged and harms no other", "[engine]") {
  const auto engine = Engine::acquire();
  struct Failing : Driver {
    std::atomic<int> drives{0};
    State drive() override {
      if (++drives < 3) throw std::bad_alloc();
      return State::idle;
    }
  } driver;
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  std::atomic<int> calls{0};
  engine->watch(pair[0], EPOLLIN, [&](std::uint32_t) {
    char byte;
    [[maybe_unused]] const ssize_t read = ::recv(pair[0], &byte, 1, MSG_DONTWAIT);
    ++calls;
    throw std::runtime_error("a watched descriptor's");
  });
  for (int i = 0; i < 2; ++i) REQUIRE(::send(pair[1], "x", 1, MSG_NOSIGNAL) == 1);
  CHECK(comes([&] { return calls == 2; }));
  engine->unwatch(pair[0]);  // returns: nothing is thought to run still
  engine->post([] { throw std::runtime_error("a task's"); });
  engine->after(milliseconds(1), [] { throw std::runtime_error("a timer's"); });
  engine->add(&driver);
  CHECK(comes([&] { return driver.drives == 3; }));
  engine->remove(&driver);
  std::atomic<bool> passed{false};
  engine->after(milliseconds(5), [&] { passed = true; });
  CHECK(comes([&] { return passed.load(); }));
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST_CASE("an idle engine uses no processor time", "[engine]") {
  const auto engine = Engine::acquire();
  CountingDriver driver;
  engine->add(&driver);
  clockid_t clock{};
  std::atomic<bool> known{false};
  engine->post([&] {
    ::pthread_getcpuclockid(::pthread_self(), &clock);
    known = true;
  });
  REQUIRE(comes([&] { return known.load(); }));
  const auto used = [&] {
    timespec time{};
    ::clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  // Once it is parked there is a stretch without a nanosecond of work; a thread that polls never has one.
  CHECK(comes([&] {
    const auto before = used();
    std::this_thread::sleep_for(milliseconds(100));
    return used() == before;
  }));
  engine->remove(&driver);
}

TEST_CASE("signals are for the program's threads", "[engine]") {
  const auto engine = Engine::acquire();
  std::atomic<int> blocked{-1};
  engine->post([&] {
    sigset_t set;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
    blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGINT) && sigismember(&set, SIGCHLD) &&
              !sigismember(&set, SIGSEGV);
  });
  CHECK(comes([&] { return blocked >= 0; }));
  CHECK(blocked == 1);
  sigset_t mine;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mine);
  CHECK_FALSE(sigismember(&mine, SIGTERM));
}

TEST_CASE("after fork the child has an engine of its own and its parent's connections are closed in it", "[engine]") {
  const auto engine = Engine::acquire();
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  engine->watch(pair[0], EPOLLIN, [](std::uint32_t) {});
  for (int round = 0; round < 5; ++round) {
    Child child([&] {
      require(!engine->alive(), "the parent's engine is dead here");
      require(::send(pair[0], "x", 1, MSG_NOSIGNAL) < 0, "the watched descriptor is no socket any more");
      const auto own = Engine::acquire();
      require(own != engine, "the child's own engine");
      std::atomic<bool> ran{false};
      own->post([&] { ran = true; });
      require(comes([&] { return ran.load(); }), "it runs");
    });
    CHECK(child.wait() == "");
  }
  CHECK(engine->alive());
  engine->unwatch(pair[0]);
  ::close(pair[0]);
  ::close(pair[1]);
}

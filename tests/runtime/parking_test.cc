// Sleeping until a peer rings. No test says how long anything may take.
#include "src/runtime/parking.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "src/base/fd.h"
#include "tests/runtime/ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using tutti::test::in_processes;
using tutti::test::on_threads;

namespace {

struct Bell {
  base::Fd own, ringer;
  Bell() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    own = base::Fd(ends[0]);
    ringer = base::Fd(ends[1]);
  }
  void ring() const { REQUIRE(::send(ringer.get(), "", 1, MSG_DONTWAIT) == 1); }
  bool rung() const {
    char byte = 0;
    return ::recv(own.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }
};

// Ranks that come late by turns, so that the others sleep; blocking calls and asynchronous ones.
std::string take_turns(Communicator& comm) {
  const int size = comm.size();
  for (int round = 0; round < 12; ++round) {
    if (round % size == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    std::vector<int> data(round % 3 == 0 ? 50'000 : 3, comm.rank() + round);
    if (round % 2 == 0)
      comm.all_reduce(std::span(data));
    else
      comm.all_reduce_async(std::span(data)).wait();
    Work unseen = comm.all_reduce_async(std::span(data));  // the engine's alone for a while
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    unseen.wait();
    for (const int sum : data)
      if (sum != size * (size * (size - 1) / 2 + size * round)) return "round " + std::to_string(round);
  }
  return {};
}

}  // namespace

TEST_CASE("one peer rings, and only while the rank is parked") {
  REQUIRE(register_for_barriers());
  const Bell bell;
  std::atomic<std::uint32_t> flag{0};
  Parking parking(flag, bell.own.get());
  CHECK_FALSE(take_parked(flag));
  parking.prepare();
  CHECK(take_parked(flag));
  CHECK_FALSE(take_parked(flag));
  bell.ring();
  parking.sleep();  // returns at once, or after Parking::kLongest
  parking.leave();
  CHECK(bell.rung());
  parking.prepare();  // hears the old ring no more
  CHECK_FALSE(bell.rung());
  parking.leave();
  CHECK_FALSE(take_parked(flag));
}

TEST_CASE("no news is lost between a peer's store and the look of a rank that parks") {
  // The protocol itself, many times: the peer publishes and looks at the flag; the rank parks and looks again.
  REQUIRE(register_for_barriers());
  const Bell bell;
  std::atomic<std::uint32_t> flag{0}, published{0};
  Parking parking(flag, bell.own.get());
  constexpr std::uint32_t kRounds = 20'000;
  std::atomic<std::uint32_t> taken{0};
  std::jthread peer([&] {
    for (std::uint32_t n = 1; n <= kRounds; ++n) {
      while (taken.load(std::memory_order_acquire) + 1 < n) std::this_thread::yield();
      published.store(n, std::memory_order_release);
      if (take_parked(flag)) ::send(bell.ringer.get(), "", 1, MSG_DONTWAIT);
    }
  });
  std::uint32_t lost = 0;
  for (std::uint32_t n = 1; n <= kRounds; ++n) {
    while (published.load(std::memory_order_acquire) < n) {
      parking.prepare();
      if (published.load(std::memory_order_acquire) >= n) break;
      parking.sleep();
      // It slept through: the news is there, the flag is still up, and nobody has rung.
      if (published.load(std::memory_order_acquire) >= n && flag.load() != 0 && !bell.rung()) ++lost;
    }
    parking.leave();
    taken.store(n, std::memory_order_release);
  }
  CHECK(lost == 0);
}

TEST_CASE("ranks that sleep are woken: threads") {
  on_threads(3, [](Communicator& comm) {
    if (const std::string what = take_turns(comm); !what.empty()) throw std::runtime_error(what);
  });
}

TEST_CASE("ranks that sleep are woken: processes") {
  for (const auto& ending : in_processes(3, take_turns)) {
    INFO(ending.message);
    REQUIRE(ending.status == 0);
    REQUIRE(ending.message.empty());
  }
}

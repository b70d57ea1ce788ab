// Sleeping until a peer rings. No test says how long anything may take.
#include "src/runtime/parking.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "src/base/fd.h"
#include "tests/runtime/ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using tutti::test::in_processes;
using tutti::test::on_threads;
using tutti::test::stop_for;

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

Config by(const std::string& transport) {
  Config config;
  config.transport = transport;
  config.timeout = config.init_timeout = std::chrono::seconds(20);
  return config;
}

// How often the engine's thread of this process has slept so far; -1: there is none.
long switches_of_engine() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, word;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "tutti-engine") continue;
    std::ifstream status(task.path() / "status");
    while (status >> word)
      if (long count = 0; word == "voluntary_ctxt_switches:" && status >> count) return count;
  }
  return -1;
}

std::chrono::nanoseconds cpu_of_this_thread() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

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
  Parking parking(&flag, {bell.own.get()});
  CHECK_FALSE(take_parked(flag));
  parking.prepare();
  CHECK(take_parked(flag));
  CHECK_FALSE(take_parked(flag));
  bell.ring();
  parking.sleep(std::chrono::hours(1));  // or the test ends by its timeout
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
  Parking parking(&flag, {bell.own.get()});
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
      parking.sleep(std::chrono::milliseconds(10));
      // It slept through: the news is there, the flag is still up, and nobody has rung.
      if (published.load(std::memory_order_acquire) >= n && flag.load() != 0 && !bell.rung()) ++lost;
    }
    parking.leave();
    taken.store(n, std::memory_order_release);
  }
  CHECK(lost == 0);
}

TEST_CASE("ranks that sleep are woken: threads") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  INFO(transport);
  on_threads(
      3,
      [](Communicator& comm) {
        if (const std::string what = take_turns(comm); !what.empty()) throw std::runtime_error(what);
      },
      by(transport));
}

TEST_CASE("ranks that sleep are woken: processes") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  for (const auto& ending : in_processes(3, take_turns, by(transport))) {
    INFO(transport << " " << ending.message);
    REQUIRE(ending.status == 0);
    REQUIRE(ending.message.empty());
  }
}

TEST_CASE("a caller that waits sleeps, though an earlier sleeper's ring was left unheard") {
  // Processor time, so that what else runs here cannot make it fail.
  const auto endings = in_processes(
      2,
      [](Communicator& comm) -> std::string {
        int one = 1;
        const auto late = std::chrono::milliseconds(comm.rank() == 1 ? 50 : 0);
        std::this_thread::sleep_for(late);
        Work first = comm.all_reduce_async(std::span(&one, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(100) - late);  // rank 0's engine sleeps, and is rung
        first.wait();
        std::this_thread::sleep_for(20 * late);
        const auto before = cpu_of_this_thread();
        comm.barrier();
        const auto used = cpu_of_this_thread() - before;
        return used < std::chrono::milliseconds(250) ? "" : std::to_string(used.count()) + " ns of 1 s";
      },
      by("shm"));
  for (const auto& ending : endings) CHECK(ending.message == "");
}

TEST_CASE("no message is lost around the decision to sleep, blocking or not") {
  // Pauses of about the 5 ms after which a rank sleeps; a message that is lost leaves the ranks to the deadline.
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  INFO(transport);
  on_threads(
      2,
      [](Communicator& comm) {
        std::minstd_rand random(static_cast<unsigned>(comm.rank()) + 1);
        for (int round = 0; round < 100; ++round) {
          if (round % 2 == comm.rank()) std::this_thread::sleep_for(std::chrono::microseconds(4500 + random() % 1500));
          std::vector<int> data(2, comm.rank() + round);
          if (round % 3 == 0)
            comm.all_reduce_async(std::span(data)).wait();
          else
            comm.all_reduce(std::span(data));
          if (data[1] != 1 + 2 * round) throw std::runtime_error("round " + std::to_string(round));
        }
      },
      by(transport));
}

TEST_CASE("a rank that sleeps hears of a death, an abort and its deadline") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto trouble = GENERATE(as<std::string>{}, "killed", "abort", "stopped");
  const bool async = GENERATE(false, true);
  INFO(transport << " " << trouble << " " << async);
  Config config = by(transport);
  if (trouble == "stopped") config.timeout = std::chrono::milliseconds(500);
  const auto endings = in_processes(
      2,
      [&](Communicator& comm) -> std::string {
        comm.barrier();
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          if (trouble == "killed") ::kill(::getpid(), SIGKILL);
          if (trouble == "abort") comm.abort("enough");
          if (trouble == "stopped") stop_for(2);
          return {};
        }
        int one = 1;
        try {
          if (async)
            comm.all_reduce_async(std::span(&one, 1)).wait();
          else
            comm.all_reduce(std::span(&one, 1));
        } catch (const Error& error) {
          return std::string(name_of(error.code())) + ": " + error.what();
        }
        return "no error";
      },
      config);
  INFO(endings[0].message);
  CHECK_THAT(endings[0].message, Catch::Contains("rank 1") && Catch::StartsWith(trouble == "killed"  ? "remote error"
                                                                                : trouble == "abort" ? "aborted"
                                                                                                     : "timeout"));
}

TEST_CASE("the engine of an open communicator makes no system calls while nothing happens") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto endings = in_processes(
      2,
      [](Communicator& comm) -> std::string {
        int one = 1;
        comm.all_reduce_async(std::span(&one, 1)).wait();
        comm.barrier();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what the meeting left behind
        const long before = switches_of_engine();
        std::this_thread::sleep_for(std::chrono::seconds(1));
        const long used = switches_of_engine() - before;
        comm.barrier();
        return before > 0 && used <= 3 ? "" : std::to_string(before) + ", then " + std::to_string(used);
      },
      by(transport));
  for (const auto& ending : endings) CHECK(ending.message == "");
}

// The control plane between processes: deaths, stopped ranks, fork, and what is left behind.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "src/runtime/engine.h"
#include "src/runtime/rendezvous_auth.h"
#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

OperationRecord record_of(std::uint64_t sequence) {
  OperationRecord record;
  record.sequence = sequence;
  record.count = 3;
  return record;
}

std::string fault_of(const ControlPlane& plane) {
  const auto limit = in(seconds(20));
  while (!plane.fault_raised()) {
    require(std::chrono::steady_clock::now() < limit, "a fault comes");
    std::this_thread::sleep_for(milliseconds(1));
  }
  return plane.fault().what();
}

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

}  // namespace

TEST_CASE("ranks as processes meet by a unique id of their parent", "[control]") {
  const int size = GENERATE(2, 7);
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(size, [&](int rank) {
    const auto plane = connect(id, rank, size);
    const auto all = plane->all_gather({std::byte(rank)}, soon());
    for (int other = 0; other < size; ++other) require(all[std::size_t(other)] == Bytes{std::byte(other)}, "the blob");
    plane->leave(0);
  });
  CHECK(failures == std::vector<std::string>(std::size_t(size)));
}

TEST_CASE("a killed rank is named on all others", "[control]") {
  const int victim = GENERATE(0, 1, 3);
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(4, [&](int rank) {
    const auto plane = connect(id, rank, 4);
    plane->all_gather({}, soon());
    if (rank == victim) ::kill(::getpid(), SIGKILL);
    throw std::runtime_error(fault_of(*plane));
  });
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == victim) {
      CHECK(failures[std::size_t(rank)] == "killed by signal 9");
    } else {
      CHECK_THAT(failures[std::size_t(rank)],
                 Catch::Matchers::StartsWith("rank " + std::to_string(victim) + " (pid ") &&
                     Catch::Matchers::EndsWith(" died: its control connection closed"));
      CHECK(failures[std::size_t(rank)] == failures[std::size_t(victim == 1 ? 0 : 1)]);
    }
  }
}

TEST_CASE("a killed rank is named although its own child lives on", "[control]") {
  const UniqueId id = UniqueId::create();
  const Shared<std::atomic<pid_t>> worker;
  const auto failures = in_children(2, [&](int rank) {
    const auto plane = connect(id, rank, 2);
    plane->all_gather({}, soon());
    if (rank == 1) {
      if (::fork() == 0) {
        worker->store(::getpid());
        std::this_thread::sleep_for(seconds(60));  // a data loader's worker, say
        ::_exit(0);
      }
      while (worker->load() == 0) std::this_thread::yield();
      ::kill(::getpid(), SIGKILL);
    }
    std::string text;
    try {
      text = fault_of(*plane);
    } catch (const std::exception& error) {
      text = error.what();
    }
    ::kill(worker->load(), SIGKILL);
    throw std::runtime_error(text);
  });
  CHECK_THAT(failures[0], Catch::Matchers::StartsWith("rank 1 (pid "));
}

TEST_CASE("a stopped rank is named by inspect and works on afterwards", "[control]") {
  const int stopped = GENERATE(0, 1, 2);
  const int inquirer = stopped == 1 ? 2 : 1;
  INFO("stopped " << stopped << ", inquirer " << inquirer);
  const UniqueId id = UniqueId::create();
  const Shared<std::atomic<int>> stage;  // 1: the rank is stopped, 2: the report is there
  std::vector<Child> children;
  for (int rank = 0; rank < 3; ++rank)
    children.emplace_back([&, rank] {
      const auto plane = connect(id, rank, 3, [] { return state_of(record_of(5), true, "a message"); });
      plane->all_gather({}, soon());
      std::string report;
      if (rank == stopped) ::raise(SIGSTOP);
      if (rank == inquirer) {
        while (*stage < 1) std::this_thread::sleep_for(milliseconds(1));
        report = plane->inspect(record_of(5));
        *stage = 2;
      }
      plane->all_gather({}, soon());
      plane->leave(5);
      if (rank == inquirer) throw std::runtime_error(report);
    });
  const Child& victim = children[std::size_t(stopped)];
  const std::string who = "rank " + std::to_string(stopped) + " (pid " + std::to_string(victim.pid());
  while (victim.state() != 'T' && victim.state() != 'Z') std::this_thread::sleep_for(milliseconds(1));
  *stage = 1;
  while (*stage < 2 && children[std::size_t(inquirer)].state() != 'Z') std::this_thread::sleep_for(milliseconds(1));
  victim.signal(SIGCONT);
  std::vector<std::string> texts;
  for (Child& child : children) texts.push_back(child.wait());
  CHECK_THAT(texts[std::size_t(inquirer)], Contains(who) && Contains("is stopped (SIGSTOP)"));
  CHECK(texts[std::size_t(stopped)].empty());
}

TEST_CASE("a child of fork() cannot use its parent's communicator and does it no harm", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(2, [&](int rank) {
    auto plane = connect(id, rank, 2);
    std::string said;
    {
      Child child([&] {
        const auto mine = std::move(plane);
        std::string text;
        try {
          mine->all_gather({}, soon());
        } catch (const Error& error) {
          text = error.what();
        }
        mine->raise(ErrorCode::aborted, "from the child");
        mine->leave(1);
        throw std::runtime_error(text);
      });
      said = child.wait();
    }
    require(said.find("before fork()") != std::string::npos, said);
    // The child makes its own; the parent goes on.
    const UniqueId other = UniqueId::create();
    std::vector<Child> pair;
    for (int i = 0; i < 2; ++i) pair.emplace_back([&, i] { connect(other, i, 2)->leave(0); });
    for (Child& child : pair) require(child.wait().empty(), "a child's own communicator works");
    plane->all_gather({}, soon());
    require(!plane->fault_raised(), "no fault");
    plane->leave(0);
  });
  CHECK(failures == std::vector<std::string>(2));
}

TEST_CASE("a process may end right after it has left", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(6, [&](int rank) {
    auto plane = connect(id, rank, 6);
    plane->all_gather({}, soon());
    plane->leave(3);
    if (rank % 2 == 0) ::_exit(0);  // not even the destructor runs
    std::this_thread::sleep_for(milliseconds(150));
    require(!plane->fault_raised(), "no fault");
  });
  CHECK(failures == std::vector<std::string>(6));
}

TEST_CASE("a death is news to all although rank 0 has left, until all have left", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = in_children(4, [&](int rank) {
    const auto plane = connect(id, rank, 4);
    plane->all_gather({}, soon());
    if (rank == 0) return plane->leave(1);  // and ends
    if (rank == 1) {
      while (plane->inspect(record_of(1)).find("rank 0 left after operation #1") == std::string::npos)
        std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(100));  // rank 0 would be gone
      ::kill(::getpid(), SIGKILL);
    }
    throw std::runtime_error(fault_of(*plane));
  });
  CHECK(failures[0].empty());
  CHECK(failures[1] == "killed by signal 9");
  for (int rank = 2; rank < 4; ++rank)
    CHECK_THAT(failures[std::size_t(rank)],
               Catch::Matchers::StartsWith("rank 1 (pid ") && Contains("died: its control connection closed"));
}

TEST_CASE("who stalls after rank 0 has ended in good order hears of it from nobody but itself", "[control]") {
  const UniqueId id = UniqueId::create();
  const Shared<std::atomic<int>> messages;
  const auto failures = in_children(3, [&](int rank) {
    const auto plane = connect(id, rank, 3, [&] {
      return state_of(record_of(1), true, "a message from rank 1 (message " + std::to_string(*messages) + ")");
    });
    plane->all_gather({}, soon());
    if (rank == 0) return plane->leave(1);  // returns although the others stay
    const auto limit = in(seconds(20));
    if (rank == 1) {
      while (*messages < 1000 && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(milliseconds(5));
      return plane->leave(1);
    }
    // Messages that go on coming for longer than an orphan waits for one, then none.
    for (int i = 0; i < 400; ++i, ++*messages) {
      plane->report_stall(record_of(1));
      require(!plane->fault_raised(), "no fault while messages come");
      std::this_thread::sleep_for(milliseconds(10));
    }
    while (!plane->fault_raised() && std::chrono::steady_clock::now() < limit) {
      plane->report_stall(record_of(1));
      std::this_thread::sleep_for(milliseconds(5));
    }
    *messages = 1000;
    require(plane->fault_raised(), "a fault comes");
    throw std::runtime_error(std::string(name_of(plane->fault().code())) + ": " + plane->fault().what());
  });
  CHECK(failures[0].empty());
  CHECK(failures[2] ==
        "remote error: rank 0, which carries the news between ranks, has ended; rank 2 waits in all_reduce #1 float x "
        "3 sum for a message from rank 1 (message 400): a rank may have died unheard");
}

TEST_CASE("communicators leave no descriptor and no thread behind", "[control]") {
  const auto hold = Engine::acquire();
  std::size_t descriptors = 0, threads = 0;
  for (int round = 0; round < 201; ++round) {
    if (round == 1) {
      descriptors = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
    const UniqueId id = UniqueId::create();
    const auto failures = on_threads(3, [&](int rank) {
      const auto plane = connect(id, rank, 3);
      if (round % 3 == 0) plane->raise(ErrorCode::aborted, "enough");
      if (round % 3 == 1) plane->leave(0);  // else it is dropped
    });
    for (const std::string& failure : failures)
      CHECK((failure.empty() || failure.find("enough") != std::string::npos ||
             failure.find("gave up") != std::string::npos));
    // What the other end has yet to close goes a moment later.
    for (int wait = 0; wait < 2000 && round > 0 && entries("/proc/self/fd") > descriptors + (round < 200 ? 40 : 0);
         ++wait)
      std::this_thread::sleep_for(milliseconds(5));
  }
  CHECK(entries("/proc/self/fd") <= descriptors);
  CHECK(entries("/proc/self/task") <= threads);
}

TEST_CASE("connects that fail leave neither descriptors nor a thread", "[control]") {
  Child child([] {
    const auto limit = in(seconds(30));
    const auto descriptors = entries("/proc/self/fd");
    for (int i = 0; i < 3; ++i) {
      std::string text;
      try {
        connect(UniqueId::create(), 0, 2, {}, in(milliseconds(100)));
      } catch (const Error& error) {
        text = error.what();
      }
      require(text.find("for rank 1 of 2") != std::string::npos, text);
    }
    while ((entries("/proc/self/fd") > descriptors || entries("/proc/self/task") > 1) &&
           std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(10));
    require(entries("/proc/self/fd") == descriptors, std::to_string(entries("/proc/self/fd")) + " descriptors stay, " +
                                                         std::to_string(descriptors) + " were there before");
    require(entries("/proc/self/task") == 1, "the engine's thread has ended");
  });
  CHECK(child.wait() == "");
}

TEST_CASE("a meeting that runs out of descriptors tells all ranks the cause", "[rendezvous]") {
  const int room = GENERATE(10, 13);  // rank 0 alone: 2 for the engine, 3 for each of two doors, 2 to call itself
  CAPTURE(room);
  const int size = 7;
  const std::uint16_t port = free_port();
  const auto failures = in_children(size, [&](int rank) {
    std::optional<FewDescriptors> few;
    if (rank == 0) few.emplace(room);
    ControlPlane::connect(launched(rank, size, port), in(seconds(100)), {});
  });
  for (const std::string& failure : failures)
    CHECK_THAT(failure,
               Contains("the process that holds the meeting at 127.0.0.1:" + std::to_string(port)) &&
                   Contains("cannot accept connections: Too many open files (errno 24; this process may open ") &&
                   Contains("raise the limit with `ulimit -n`"));
}

TEST_CASE("a centre that runs out of descriptors ends the connecting of all ranks", "[rendezvous]") {
  const UniqueId id = UniqueId::create();  // its meeting takes descriptors of this process, not of rank 0
  const int size = 8;
  const auto failures = in_children(size, [&](int rank) {
    std::optional<FewDescriptors> few;
    if (rank == 0) few.emplace(2 + 3 + 2 + 4);  // the engine, the door, the way to the meeting, some of the others
    connect(id, rank, size, {}, in(seconds(100)));
  });
  CHECK_THAT(failures[0], Contains("rank 0 (pid ") && Contains("cannot accept connections: Too many open files") &&
                              Contains("raise the limit with `ulimit -n`"));
  for (const std::string& failure : failures) CHECK(failure != "");
}

TEST_CASE("a rank without descriptors to call says so", "[rendezvous]") {
  const std::uint16_t port = free_port();
  Child child([&] {
    const FewDescriptors few(3);  // for the engine
    ControlPlane::connect(launched(1, 2, port), in(seconds(100)), {});
  });
  CHECK_THAT(child.wait(),
             Contains("rank 1 cannot call rank 0, which opens the meeting at 127.0.0.1:" + std::to_string(port)) &&
                 Contains("Too many open files (errno 24; this process may open ") &&
                 Contains("raise the limit with `ulimit -n`"));
}

TEST_CASE("who is missing is known to every rank, also when rank 0 has given up before it", "[control]") {
  // Ranks of a launched job on one host, which meet at a name of rank 0's; its process ends when it gives up.
  const auto job_of = [name = "job of " + std::to_string(::getpid())](int rank) {
    Job job;
    job.rank = rank;
    job.size = 5;
    job.source = "test";
    job.meeting.name = name;
    job.meeting.secret = secret_from_text("secret");
    job.meeting.serve = rank == 0;
    return job;
  };
  const auto failures = in_children(4, [&](int rank) {
    if (rank != 2) ControlPlane::connect(job_of(rank), in(milliseconds(rank == 0 ? 700 : 1400)), {});
  });
  for (const int rank : {0, 1, 3})
    CHECK_THAT(failures[std::size_t(rank)],
               Contains("rank " + std::to_string(rank) + " waited ") && Contains(" for ranks 2, 4 of 5; 3 connected;"));
  for (const int rank : {1, 3}) CHECK_THAT(failures[std::size_t(rank)], Contains("its holder has given up or died"));

  const auto without = in_children(3, [&](int rank) {
    if (rank != 0) ControlPlane::connect(job_of(rank), in(milliseconds(300)), {});
  });
  for (const int rank : {1, 2})
    CHECK_THAT(without[std::size_t(rank)],
               Contains("rank " + std::to_string(rank) + " could not reach rank 0, which opens"));
}

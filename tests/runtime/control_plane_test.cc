// The control plane between ranks as threads of this process: meeting, exchange, faults, reports, leaving.
#include "src/runtime/control_plane.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <fstream>

#include "src/runtime/engine.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/wire_line.h"
#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("ranks as threads meet by a unique id and exchange blobs", "[control]") {
  const int size = GENERATE(1, 2, 3, 5, 8, 16, 33);
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(size, [&](int rank) {
    const auto plane = connect(id, rank, size);
    for (int round = 0; round < 3; ++round) {
      Bytes mine(static_cast<std::size_t>(rank * 100 + round), std::byte(rank + round));
      const auto all = plane->all_gather(mine, soon());
      require(all.size() == static_cast<std::size_t>(size), "one blob per rank");
      for (int other = 0; other < size; ++other)
        require(
            all[std::size_t(other)] == Bytes(static_cast<std::size_t>(other * 100 + round), std::byte(other + round)),
            "the blob of rank " + std::to_string(other));
    }
    plane->leave(0);
    require(!plane->fault_raised(), "no fault");
  });
  CHECK(failures == std::vector<std::string>(std::size_t(size)));
}

namespace {

OperationRecord record_of(std::uint64_t sequence, std::uint64_t count = 1024) {
  OperationRecord record;
  record.sequence = sequence;
  record.count = count;
  return record;
}

// Waits until the plane has a fault and says which.
std::string fault_of(const ControlPlane& plane) {
  const auto limit = in(seconds(20));
  while (!plane.fault_raised()) {
    require(std::chrono::steady_clock::now() < limit, "a fault comes");
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::string(name_of(plane.fault().code())) + ": " + plane.fault().what();
}

}  // namespace

TEST_CASE("the first fault raised is the fault of all ranks", "[control]") {
  const UniqueId id = UniqueId::create();
  std::vector<std::string> faults(6);
  const auto failures = on_threads(6, [&](int rank) {
    const auto plane = connect(id, rank, 6);
    plane->raise(ErrorCode::aborted, "rank " + std::to_string(rank) + " had enough");  // all at once
    require(plane->fault_raised(), "the own fault is seen at once");
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->all_gather({}, in(seconds(1)));
  });
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(faults[std::size_t(rank)] == faults[0]);
    CHECK("aborted: " + failures[std::size_t(rank)] == faults[0]);
  }
  CHECK_THAT(faults[0], Catch::Matchers::Matches("aborted: rank [0-5] had enough"));
}

TEST_CASE("calls that do not match end on all ranks with both calls in the message", "[control]") {
  const UniqueId id = UniqueId::create();
  std::vector<std::string> faults(4);
  const auto failures = on_threads(4, [&](int rank) {
    const auto plane = connect(id, rank, 4);
    plane->all_gather({}, soon());
    if (rank == 1 || rank == 3) plane->report_stall(record_of(17, rank == 3 ? 1000 : 1024));
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->leave(17);
  });
  CHECK(failures == std::vector<std::string>(4));
  for (const std::string& fault : faults)
    CHECK(fault ==
          "invalid usage: calls do not match: rank 1 called all_reduce #17 float x 1024 sum, rank 3 called "
          "all_reduce #17 float x 1000 sum");
}

TEST_CASE("a stalled call is compared with ranks that report nothing", "[control]") {
  const UniqueId id = UniqueId::create();
  std::vector<std::string> faults(3);
  const auto failures = on_threads(3, [&](int rank) {
    const auto plane = connect(id, rank, 3, [rank] {
      RankState state;
      state.current = record_of(5, rank == 2 ? 7 : 8);
      state.running = true;
      return state;
    });
    while (rank == 0 && !plane->fault_raised()) {
      plane->report_stall(record_of(5, 8));
      std::this_thread::sleep_for(milliseconds(5));
    }
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->leave(5);
  });
  CHECK(failures == std::vector<std::string>(3));
  for (const std::string& fault : faults)
    CHECK(fault ==
          "invalid usage: calls do not match: rank 0 called all_reduce #5 float x 8 sum, rank 2 called "
          "all_reduce #5 float x 7 sum");
}

TEST_CASE("who reports a stall often does not keep another's from being compared", "[control]") {
  const UniqueId id = UniqueId::create();
  std::vector<std::string> faults(3);
  const auto failures = on_threads(3, [&](int rank) {
    const auto plane = connect(id, rank, 3, [rank] {
      RankState state = state_of(record_of(rank == 2 ? 5 : 6, rank == 2 ? 7 : 8), true, "");
      if (rank != 2) state.recent = {record_of(5, 8)};
      return state;
    });
    // Rank 2 is stuck in a call that the others have ended otherwise; they are stuck in the next.
    const auto patience = in(seconds(3));
    while (rank != 0 && !plane->fault_raised() && std::chrono::steady_clock::now() < patience) {
      plane->report_stall(rank == 2 ? record_of(5, 7) : record_of(6, 8));
      std::this_thread::sleep_for(rank == 2 ? milliseconds(60) : std::chrono::microseconds(50));
    }
    require(rank == 0 || plane->fault_raised(), "a fault");
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->leave(6);
  });
  CHECK(failures == std::vector<std::string>(3));
  for (const std::string& fault : faults)
    CHECK_THAT(fault, Catch::StartsWith("invalid usage: calls do not match: ") &&
                          Catch::Contains("rank 2 called all_reduce #5 float x 7 sum"));
}

TEST_CASE("plans that differ are told in words, never by their numbers", "[control]") {
  const bool same_words = GENERATE(false, true);  // as builds of the library that make other steps of one algorithm
  const UniqueId id = UniqueId::create();
  std::vector<std::string> faults(3);
  const auto failures = on_threads(3, [&](int rank) {
    OperationRecord record = record_of(5, 8);
    record.plan = rank == 2 ? 1234567890 : 987654321;
    const auto plane = connect(id, rank, 3, [&, rank, record] {
      RankState state = state_of(record, true, "");
      state.plans[record.plan] = rank == 2 && !same_words ? "tree" : "ring";
      return state;
    });
    while (rank == 0 && !plane->fault_raised()) {
      plane->report_stall(record);
      std::this_thread::sleep_for(milliseconds(5));
    }
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->leave(5);
  });
  CHECK(failures == std::vector<std::string>(3));
  const std::string call = "all_reduce #5 float x 8 sum", library = std::string(", library ") + kLibraryVersion;
  for (const std::string& fault : faults)
    CHECK(fault == "invalid usage: calls do not match: rank 0 called " + call + " by ring" + library +
                       ", rank 2 called " + call + " by " + (same_words ? "ring" : "tree") + library +
                       (same_words ? "; these plans have the same values but not the same steps: do all ranks run one "
                                     "build of the library?"
                                   : "; give all ranks the same settings and the same build of the library"));
}

TEST_CASE("equal calls that stall are no fault", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(3, [&](int rank) {
    const auto plane = connect(id, rank, 3, [] { return state_of(record_of(9), true, ""); });
    for (int i = 0; i < 60; ++i) {
      plane->report_stall(record_of(9));
      std::this_thread::sleep_for(milliseconds(5));
    }
    plane->all_gather({}, soon());
    require(!plane->fault_raised(), "no fault");
    plane->leave(9);
  });
  CHECK(failures == std::vector<std::string>(3));
}

TEST_CASE("who waits for a rank that has left is told so; who does not is left alone", "[control]") {
  const UniqueId id = UniqueId::create();
  const int leaver = GENERATE(0, 2);
  std::vector<std::string> faults(3);
  std::barrier survivors(2);
  const auto failures = on_threads(3, [&](int rank) {
    auto plane = connect(id, rank, 3);
    plane->all_gather({}, soon());
    if (rank == leaver) {
      plane->leave(12);
      return;
    }
    std::this_thread::sleep_for(milliseconds(50));
    require(!plane->fault_raised(), "leaving is no fault");
    plane->report_stall(record_of(12));
    std::this_thread::sleep_for(milliseconds(30));
    const bool faulted = plane->fault_raised();
    survivors.arrive_and_wait();
    require(!faulted, "an operation that the leaver took part in is no fault");
    while (!plane->fault_raised()) {
      plane->report_stall(record_of(13));
      std::this_thread::sleep_for(milliseconds(5));
    }
    faults[std::size_t(rank)] = fault_of(*plane);
    plane->leave(13);
  });
  CHECK(failures == std::vector<std::string>(3));
  for (int rank = 0; rank < 3; ++rank)
    if (rank != leaver)
      CHECK_THAT(faults[std::size_t(rank)], Catch::Matchers::StartsWith("remote error: rank " + std::to_string(leaver) +
                                                                        " left after operation #12; rank ") &&
                                                Catch::Matchers::EndsWith(" waits in all_reduce #13 float x 1024 sum"));
}

TEST_CASE("ranks of one process that one thread lets go in their order do not wait for each other", "[control]") {
  const auto limit = in(seconds(15));  // were rank 0 to wait for the others, the rounds would take 20 s
  for (int round = 0; round < 10; ++round) {
    const UniqueId id = UniqueId::create();
    std::vector<std::unique_ptr<ControlPlane>> planes(4);
    const auto failures = on_threads(4, [&](int rank) { planes[std::size_t(rank)] = connect(id, rank, 4); });
    REQUIRE(failures == std::vector<std::string>(4));
    for (auto& plane : planes) {
      plane->leave(0);
      plane.reset();
    }
  }
  CHECK(std::chrono::steady_clock::now() < limit);
}

TEST_CASE("a communicator that is dropped without leaving is a fault for the others", "[control]") {
  const UniqueId id = UniqueId::create();
  const int dropper = GENERATE(0, 1);
  std::vector<std::string> faults(3);
  const auto failures = on_threads(3, [&](int rank) {
    auto plane = connect(id, rank, 3);
    plane->all_gather({}, soon());
    if (rank != dropper) faults[std::size_t(rank)] = fault_of(*plane);
  });
  CHECK(failures == std::vector<std::string>(3));
  for (int rank = 0; rank < 3; ++rank)
    if (rank != dropper)
      CHECK_THAT(faults[std::size_t(rank)],
                 Catch::Matchers::StartsWith("remote error: rank " + std::to_string(dropper) + " (pid ") &&
                     Catch::Matchers::EndsWith(" gave up its communicator"));
}

TEST_CASE("inspect says what every rank does", "[control]") {
  const UniqueId id = UniqueId::create();
  const int inquirer = GENERATE(0, 1, 4);
  std::string report;
  const auto failures = on_threads(5, [&](int rank) {
    const auto plane = connect(id, rank, 5, [rank] {
      if (rank == 0) return state_of(record_of(5), true, "a message from rank 2");
      if (rank == 1) return state_of(record_of(5), true, "");
      if (rank == 2) return state_of(record_of(4), false, "");
      if (rank == 3) return state_of(record_of(4), true, "a message from rank 1");
      return state_of(record_of(5), false, "");
    });
    plane->all_gather({}, soon());
    if (rank == inquirer) report = plane->inspect(record_of(5));
    plane->all_gather({}, soon());
    plane->leave(5);
  });
  CHECK(failures == std::vector<std::string>(5));
  CHECK(report ==
        "rank 0 waits for a message from rank 2; rank 1 is in it and does not wait; rank 2 has not entered "
        "all_reduce #5 float x 1024 sum (it finished #4); rank 3 has not entered all_reduce #5 float x 1024 sum "
        "(it is still in all_reduce #4 float x 1024 sum and waits for a message from rank 1); rank 4 has "
        "finished it");
}

namespace {

struct Pair {
  base::Fd ours, theirs;
  Pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("pair");
    ours = base::Fd(ends[0]);
    theirs = base::Fd(ends[1]);
  }
};

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

}  // namespace

TEST_CASE("a line to a peer that does not read ends, with a reason", "[control]") {
  const auto engine = Engine::acquire();
  Pair pair;
  Channel channel(std::move(pair.ours), 64);
  channel.set_output_limit(std::size_t{1} << 20);
  std::atomic<bool> ended{false};
  std::string reason;
  auto shared = std::make_shared<Channel>(std::move(channel));
  engine->post([&] {
    const auto line = Line::start(
        engine, std::move(*shared), [](const Frame&) {},
        [&](const std::string& why) {
          reason = why;
          ended = true;
        });
    for (int i = 0; i < 100; ++i) line->send(1, Bytes(100'000));
  });
  for (const auto limit = in(seconds(20)); !ended && std::chrono::steady_clock::now() < limit;)
    std::this_thread::sleep_for(milliseconds(1));
  REQUIRE(ended);
  CHECK_THAT(reason, Catch::Matchers::StartsWith("it does not take its messages: ") &&
                         Catch::Matchers::EndsWith(" bytes wait for it (the limit is 1048576)"));
}

TEST_CASE("a channel that is never quite empty keeps only what is unsent", "[control]") {
  Pair pair;
  Channel out(std::move(pair.ours), 64), in(std::move(pair.theirs), 1 << 20);
  out.set_output_limit(std::size_t{4} << 20);
  const auto before = resident_bytes();
  for (int i = 0; i < 20; ++i) REQUIRE(out.send(1, Bytes(100'000)));  // more than the socket takes
  int received = 0;
  for (int i = 0; i < 3000; ++i) {  // 300 MB
    REQUIRE(out.send(2, Bytes(100'000)));
    REQUIRE(out.unsent());
    for (bool got = false; !got;) {  // one frame in for each one out
      REQUIRE(in.receive());
      REQUIRE(out.flush());
      if (const auto frame = in.next()) {
        ++received;
        got = true;
      }
    }
  }
  CHECK(received == 3000);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
  CHECK(resident_bytes() < before + (std::size_t{100} << 20));
#else
  CHECK(before > 0);
#endif
}

TEST_CASE("one rank alone has a control plane without sockets", "[control]") {
  Job job;
  const auto plane = ControlPlane::connect(job, soon(), {});
  CHECK(plane->all_gather({std::byte{1}}, soon()) == std::vector<Bytes>{{std::byte{1}}});
  plane->raise(ErrorCode::timeout, "late");
  plane->raise(ErrorCode::aborted, "later");
  CHECK(plane->fault_raised());
  CHECK(std::string(plane->fault().what()) == "late");
}

TEST_CASE("a blob over the limit is refused where it is given", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(2, [&](int rank) {
    const auto plane = connect(id, rank, 2);
    const auto all = plane->all_gather(Bytes(std::size_t{1} << 20, std::byte(rank)), soon());
    require(all[1] == Bytes(std::size_t{1} << 20, std::byte{1}), "the largest blob arrives");
    try {
      plane->all_gather(Bytes((std::size_t{1} << 20) + 1), soon());
      require(false, "an error");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument, error.what());
    }
    plane->leave(0);
  });
  CHECK(failures == std::vector<std::string>(2));
}

TEST_CASE("an exchange that a rank does not join ends at its deadline and names the rank", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(3, [&](int rank) {
    const auto plane = connect(id, rank, 3);
    if (rank == 0) plane->all_gather({}, in(milliseconds(200)));
    if (rank == 1) plane->all_gather({}, soon());
    if (rank == 2) fault_of(*plane);
  });
  for (const int rank : {0, 1})
    CHECK(failures[std::size_t(rank)] ==
          "rank 0 of 3 waited in vain for rank 2 to "
          "exchange connection facts over the control plane");
}

TEST_CASE("a rank whose deadline comes before rank 0's names the ranks that an exchange waits for", "[control]") {
  const UniqueId id = UniqueId::create();
  const auto failures = on_threads(5, [&](int rank) {
    const auto plane = connect(id, rank, 5);
    if (rank == 0 || rank == 3) plane->all_gather({}, soon());
    if (rank == 1) plane->all_gather({}, in(milliseconds(400)));
    if (rank == 2 || rank == 4) fault_of(*plane);
  });
  CHECK_THAT(failures[1], Catch::Matchers::Contains("rank 1 of 5 waited in vain for ranks 2, 4 to"));
  CHECK_THAT(failures[3], Catch::Matchers::Contains("rank 1"));
}

TEST_CASE("several communicators of one process, connected at once", "[control]") {
  std::vector<UniqueId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(UniqueId::create());
  const auto failures = on_threads(24, [&](int thread) {
    const int communicator = thread / 3, rank = thread % 3;
    const auto plane = connect(ids[std::size_t(communicator)], rank, 3);
    const auto all = plane->all_gather({std::byte(communicator)}, soon());
    require(all == std::vector<Bytes>(3, Bytes{std::byte(communicator)}), "blobs of this communicator only");
    if (communicator == 3 && rank == 1) plane->raise(ErrorCode::aborted, "one of many");
    if (communicator == 3) require(fault_of(*plane) == "aborted: one of many", "the fault");
    plane->all_gather({}, in(seconds(communicator == 3 ? 0 : 20)));
    require(!plane->fault_raised(), "no fault elsewhere");
    plane->leave(0);
  });
  for (int thread = 0; thread < 24; ++thread)
    CHECK(failures[std::size_t(thread)] == (thread / 3 == 3 ? "one of many" : ""));
}

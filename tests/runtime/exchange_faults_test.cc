// Messages between two ranks when things go wrong: calls that do not match, peers that never come, leave or are killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/runtime/exchange_support.h"
#include "tests/runtime/ranks.h"
#include "tutti/memory.h"

using namespace tutti;
using namespace tutti::test;
using namespace std::chrono_literals;
using Direction = Transfer::Direction;

namespace {

Config config_for(const std::string& transport, std::chrono::milliseconds timeout = 60s) {
  Config config;
  config.transport = transport;
  config.timeout = timeout;
  return config;
}

// What the call throws, with its code in front; "" if nothing.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
  }
}

std::string code(ErrorCode value) { return std::to_string(static_cast<int>(value)) + ": "; }

}  // namespace

TEST_CASE("transfers whose counts or types differ fail on both ranks, by name") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  struct Case {
    std::size_t sent;
    DataType sent_type;
    std::size_t expected;
    DataType expected_type;
    const char* text;
  };
  const auto c = GENERATE(
      Case{100, DataType::float32, 100, DataType::int32,
           "rank 1 sends float x 100 to rank 0, which expects int32 x 100"},
      Case{2, DataType::int8, 1, DataType::int8, "rank 1 sends int8 x 2 to rank 0, which expects int8 x 1"},
      Case{1, DataType::int8, 300'000, DataType::int8, "rank 1 sends int8 x 1 to rank 0, which expects int8 x 300000"},
      Case{0, DataType::int8, 5, DataType::int8, "rank 1 sends int8 x 0 to rank 0, which expects int8 x 5"},
      Case{1'000'000, DataType::float64, 999'999, DataType::float64,
           "rank 1 sends double x 1000000 to rank 0, which expects double x 999999"});
  std::vector<std::string> messages(3);
  on_threads(
      3,
      [&](Communicator& comm) {
        std::vector<std::byte> data(8'000'000);
        messages[static_cast<std::size_t>(comm.rank())] = error_of([&] {
          const Transfer good[] = {{Direction::send, data.data(), 3, DataType::int8, (comm.rank() + 1) % 3},
                                   {Direction::receive, data.data(), 3, DataType::int8, (comm.rank() + 2) % 3}};
          comm.exchange(good);
          if (comm.rank() == 0) comm.receive(data.data(), c.expected, c.expected_type, 1);
          if (comm.rank() == 1) comm.send(data.data(), c.sent, c.sent_type, 0);
          comm.barrier();
        });
      },
      config_for(transport));
  for (const std::string& message : messages)
    CHECK(message == code(ErrorCode::invalid_usage) + "calls do not match: " + c.text);
}

TEST_CASE("a receive without its send times out, and the report says who waits for whom") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  std::vector<std::string> messages(3);
  on_threads(
      3,
      [&](Communicator& comm) {
        std::vector<float> data(100);
        messages[static_cast<std::size_t>(comm.rank())] = error_of([&] {
          comm.barrier();
          if (comm.rank() == 0) comm.receive(data.data(), 7, DataType::float32, 2);
          if (comm.rank() == 1) {
            const Transfer list[] = {{Direction::send, data.data(), 1, DataType::int8, 0},
                                     {Direction::receive, data.data(), 20, DataType::float64, 0}};
            comm.exchange_async(list).wait();
          }
          while (comm.rank() == 2) std::this_thread::sleep_for(20ms), comm.all_reduce(std::span(data));
        });
      },
      config_for(transport, 1s));
  for (const std::string& message : messages) {
    CAPTURE(message);
    CHECK(message.find(code(ErrorCode::timeout)) == 0);
    CHECK_THAT(message, Catch::Contains("did not complete within 1 s"));
    CHECK_THAT(message,
               Catch::Contains("rank 0 is in exchange #1 and waits for rank 2 to send float x 7 "
                               "(transfer 1 of 1)") ||
                   Catch::Contains("rank 0 has finished #1 and is in exchange #1 and waits for rank 2 to send "
                                   "float x 7 (transfer 1 of 1)") ||
                   Catch::Contains("(it is still in exchange #1 and waits for rank 2 to send float x 7 (transfer "
                                   "1 of 1))"));
    CHECK_THAT(message, Catch::Contains("waits for rank 0 to send double x 20 (transfer 2 of 2)"));
  }
}

TEST_CASE("a large send without its receive times out by name") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  std::vector<std::string> messages(2);
  on_threads(
      2,
      [&](Communicator& comm) {
        std::vector<float> data(1'000'000);
        messages[static_cast<std::size_t>(comm.rank())] = error_of([&] {
          comm.barrier();
          if (comm.rank() == 0) comm.send(data.data(), data.size(), DataType::float32, 1);
          comm.barrier();
        });
      },
      config_for(transport, 1s));
  for (const std::string& message : messages) {
    CAPTURE(message);
    CHECK(message.find(code(ErrorCode::timeout)) == 0);
    CHECK_THAT(message, Catch::Contains("waits for rank 1 to receive float x 1000000 (transfer 1 of 1") ||
                            Catch::Contains("waits for rank 1 to take what was sent to it"));
  }
}

TEST_CASE("abort ends exchanges that wait, also with lent memory") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  std::vector<std::string> messages(4);
  const auto start = std::chrono::steady_clock::now();
  on_threads(
      4,
      [&](Communicator& comm) {
        std::vector<float> data(1'000'000);
        messages[static_cast<std::size_t>(comm.rank())] = error_of([&] {
          comm.barrier();
          if (comm.rank() == 0) comm.receive(data.data(), 1, DataType::float32, 3);
          if (comm.rank() == 1) comm.send(data.data(), data.size(), DataType::float32, 3);
          if (comm.rank() == 2) {
            const Transfer list[] = {{Direction::receive, data.data(), 20, DataType::float64, 3}};
            comm.exchange_async(list).wait();
          }
          std::this_thread::sleep_for(100ms);
          comm.abort("test");
          comm.send(data.data(), 1, DataType::float32, 0);
        });
      },
      config_for(transport));
  CHECK(std::chrono::steady_clock::now() - start < 20s);
  for (const std::string& message : messages) CHECK(message == code(ErrorCode::aborted) + "rank 3 called abort: test");
}

TEST_CASE("a peer that is killed is named to those who wait for it") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto lent = GENERATE(false, true);
  const auto endings = in_processes(
      3,
      [&](Communicator& comm) -> std::string {
        const Memory memory = alloc(4'000'000);
        std::vector<std::byte> plain(lent ? 0 : 4'000'000);
        std::byte* const data = lent ? memory.data() : plain.data();
        return error_of([&] {
          exchange_all_pairs(comm, {8, 100'000});
          if (comm.rank() == 2) {
            std::this_thread::sleep_for(50ms);
            ::kill(::getpid(), SIGKILL);
          }
          if (comm.rank() == 0) comm.send(data, 4'000'000, DataType::int8, 2);
          if (comm.rank() == 1) comm.receive(data, 1, DataType::int8, 2);
        });
      },
      config_for(transport));
  CHECK(endings[2].signal == SIGKILL);
  for (const std::size_t rank : {0, 1}) {
    INFO(endings[rank].message);
    CHECK(endings[rank].message.find(code(ErrorCode::remote_error)) == 0);
    CHECK_THAT(endings[rank].message, Catch::Contains("rank 2"));
  }
}

TEST_CASE("what a peer had sent before it left arrives, and what it had not is missed by name") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  std::vector<std::string> messages(3);
  std::vector<std::uint8_t> values(3);
  {
    std::vector<Communicator> comms = Communicator::connect_threads(3, config_for(transport));
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank, comm = std::move(comms[rank])]() mutable {
        messages[rank] = error_of([&] {
          std::uint8_t value = 42;
          comm.barrier();
          if (rank == 2) {
            comm.send(&value, 1, DataType::uint8, 0);
            return;
          }
          if (rank == 0) {
            std::this_thread::sleep_for(100ms);
            comm.receive(&values[0], 1, DataType::uint8, 2);
          }
          if (rank == 0) comm.receive(&value, 1, DataType::uint8, 2);
          if (rank == 1) comm.receive(&value, 1, DataType::uint8, 0);
        });
      });
  }
  CHECK(values[0] == 42);
  CHECK(messages[2].empty());
  for (const std::size_t rank : {0, 1}) {
    CAPTURE(messages[rank]);
    CHECK(messages[rank].find(code(ErrorCode::remote_error)) == 0);
    CHECK_THAT(messages[rank], Catch::Contains("rank 2 has left the communicator, but rank 0 waits in exchange #2 for "
                                               "rank 2 to send uint8 x 1"));
  }
}

TEST_CASE("what a process has sent arrives although it ends without a word") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto size = GENERATE(std::size_t{8}, std::size_t{15'000}, std::size_t{60'000});
  const auto endings = in_processes(
      2,
      [&](Communicator& comm) -> std::string {
        Guarded data(size);
        return error_of([&] {
          if (comm.rank() == 1) {
            for (std::size_t n = 0; n < 3; ++n) {
              data.fill(1, 0, n);
              comm.send(data.data(), size, DataType::uint8, 0);
            }
            ::_exit(0);
          }
          for (std::size_t n = 0; n < 3; ++n) {
            comm.receive(data.data(), size, DataType::uint8, 1);
            data.check(1, 0, n);
            std::this_thread::sleep_for(50ms);
          }
        });
      },
      config_for(transport));
  CHECK(endings[0].message == "");
}

TEST_CASE("a process that forks refuses exchanges in the child only") {
  for (const Ending& ending : in_processes(2, [](Communicator& comm) -> std::string {
         exchange_all_pairs(comm, {10});
         if (const pid_t child = ::fork(); child == 0) {
           const std::string message = error_of([&] { comm.send(nullptr, 0, DataType::int8, 1 - comm.rank()); });
           ::_exit(message.find("before fork()") != std::string::npos ? 0 : 1);
         } else {
           int status = 0;
           ::waitpid(child, &status, 0);
           if (status != 0) return "the child was not refused";
         }
         exchange_all_pairs(comm, {10});
         return "";
       }))
    CHECK(ending.message == "");
}

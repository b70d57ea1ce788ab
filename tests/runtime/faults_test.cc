// What happens when ranks die, stop, disagree or never come: ranks as processes, each fault named on every survivor.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <regex>
#include <thread>

#include "tests/runtime/ranks.h"
#include "tutti/communicator.h"

using namespace tutti;
using namespace std::chrono_literals;
using tutti::test::Ending;
using tutti::test::in_processes;
using tutti::test::on_threads;
using tutti::test::stop_for;

namespace {

Config config_for(const std::string& transport) {
  Config config;
  config.transport = transport;
  config.timeout = 20s;
  config.init_timeout = 20s;
  return config;
}

// Calls all_reduce until something is wrong; returns what.
std::string reduce_until_error(Communicator& comm, std::size_t count) {
  std::vector<float> data(count, 1.0f);
  try {
    for (;;) comm.all_reduce(std::span(data), ReduceOp::max);
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
}

}  // namespace

TEST_CASE("a rank killed in the middle of an operation is named on every survivor, at once") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const int victim = GENERATE(0, 2);
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{1} << 20);
  INFO(transport << " victim " << victim << " count " << count);
  const auto start = std::chrono::steady_clock::now();
  const auto endings = in_processes(
      4,
      [&](Communicator& comm) -> std::string {
        if (comm.rank() == victim) {
          std::thread([] {
            std::this_thread::sleep_for(200ms);
            ::kill(::getpid(), SIGKILL);
          }).detach();
        }
        return reduce_until_error(comm, count);
      },
      config_for(transport));
  for (int rank = 0; rank < 4; ++rank) {
    const Ending& ending = endings[static_cast<std::size_t>(rank)];
    INFO(rank << ": " << ending.message);
    if (rank == victim) {
      CHECK(ending.signal == SIGKILL);
    } else {
      CHECK(ending.status == 0);
      CHECK_THAT(ending.message,
                 Catch::StartsWith("remote error: ") && Catch::Contains("rank " + std::to_string(victim)));
    }
  }
  CHECK(std::chrono::steady_clock::now() - start < 10s);
}

TEST_CASE("a stopped rank is named when the deadline passes") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  Config config = config_for(transport);
  config.timeout = 1s;
  const auto endings = in_processes(
      3,
      [](Communicator& comm) -> std::string {
        if (comm.rank() == 1) {
          stop_for(4);  // the others have given up by then
        }
        return reduce_until_error(comm, 1000);
      },
      config);
  for (const int rank : {0, 2}) {
    INFO(endings[static_cast<std::size_t>(rank)].message);
    CHECK_THAT(endings[static_cast<std::size_t>(rank)].message,
               Catch::StartsWith("timeout: ") && Catch::Contains("rank 1") && Catch::Contains("stopped"));
  }
}

TEST_CASE("a rank that never enters an operation is named") {
  Config config = config_for("");
  config.timeout = 700ms;
  const auto endings = in_processes(
      3,
      [](Communicator& comm) -> std::string {
        comm.barrier();
        if (comm.rank() == 2) std::this_thread::sleep_for(2s);
        return reduce_until_error(comm, 10);
      },
      config);
  CHECK_THAT(endings[0].message,
             Catch::StartsWith("timeout: ") && Catch::Contains("rank 2 has not entered all_reduce #2"));
}

TEST_CASE("calls that differ end on every rank with both calls in the message") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  struct Variant {
    const char* what;
    std::function<void(Communicator&, std::vector<float>&)>
        call;  // of rank 1; the others all_reduce 1000 floats by sum
    const char* text;
  };
  const std::vector<Variant> variants{
      {"count",
       [](Communicator& c, std::vector<float>& d) { c.all_reduce(d.data(), d.data(), 999, DataType::float32); }, "999"},
      {"far count",
       [](Communicator& c, std::vector<float>& d) { c.all_reduce(d.data(), d.data(), 1, DataType::float32); }, "x 1 "},
      {"type",
       [](Communicator& c, std::vector<float>& d) { c.all_reduce(d.data(), d.data(), 1000, DataType::bfloat16); },
       "bfloat16"},
      {"op",
       [](Communicator& c, std::vector<float>& d) {
         c.all_reduce(d.data(), d.data(), 1000, DataType::float32, ReduceOp::max);
       },
       "max"},
      {"collective", [](Communicator& c, std::vector<float>& d) { c.broadcast(d.data(), 1000, DataType::float32, 1); },
       "broadcast"},
      {"barrier", [](Communicator& c, std::vector<float>&) { c.barrier(); }, "barrier"}};
  for (const Variant& variant : variants) {
    INFO(transport << " " << variant.what);
    const auto endings = in_processes(
        3,
        [&](Communicator& comm) -> std::string {
          std::vector<float> data(1000, 1.0f);
          try {
            comm.barrier();
            if (comm.rank() == 1)
              variant.call(comm, data);
            else
              comm.all_reduce(std::span(data));
            comm.barrier();
          } catch (const Error& error) {
            return std::string(name_of(error.code())) + ": " + error.what();
          }
          return "no error";
        },
        config_for(transport));
    for (const Ending& ending : endings) {
      INFO(ending.message);
      CHECK_THAT(ending.message, Catch::StartsWith("invalid usage: ") && Catch::Contains("do not match") &&
                                     Catch::Contains(variant.text) && Catch::Contains("float x 1000"));
    }
  }
}

TEST_CASE("roots that differ are found out at the next call at the latest") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto endings = in_processes(
      3,
      [](Communicator& comm) -> std::string {
        std::vector<float> data(100);
        try {
          comm.barrier();
          comm.broadcast(std::span(data), comm.rank() == 1 ? 1 : 0);
          comm.barrier();
        } catch (const Error& error) {
          return std::string(name_of(error.code())) + ": " + error.what();
        }
        return "no error";
      },
      config_for(transport));
  for (const Ending& ending : endings) {
    INFO(transport << " " << ending.message);
    CHECK_THAT(ending.message, Catch::StartsWith("invalid usage: ") && Catch::Contains("do not match") &&
                                   Catch::Contains("root 0") && Catch::Contains("root 1"));
  }
}

TEST_CASE("plans that differ are told in words, with what has forced them") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto endings = in_processes(
      3,
      [](Communicator& comm) -> std::string {
        std::vector<float> data(20'000);
        try {
          comm.all_reduce(std::span(data));
          if (comm.rank() == 1) comm.force_algorithm("tree");
          if (comm.rank() == 2) comm.force_algorithm("ring");
          if (comm.rank() == 0) comm.force_algorithm("ring");
          comm.all_reduce(std::span(data));
        } catch (const Error& error) {
          return std::string(name_of(error.code())) + ": " + error.what();
        }
        return "no error";
      },
      config_for(transport));
  for (const Ending& ending : endings) {
    INFO(transport << " " << ending.message);
    CHECK_THAT(ending.message, Catch::StartsWith("invalid usage: ") && Catch::Contains("do not match") &&
                                   Catch::Contains("by ring in ") && Catch::Contains("forced: 'ring' by TUTTI_ALGO") &&
                                   Catch::Contains("by tree in ") && Catch::Contains("forced: 'tree' by TUTTI_ALGO"));
    CHECK_THAT(ending.message, Catch::Contains(" slots of ") && Catch::Contains("library "));
    CHECK_FALSE(std::regex_search(ending.message, std::regex("[0-9]{8}")));  // no hash
  }
}

TEST_CASE("settings that differ are told at connect, with both values") {
  const std::pair<const char*, std::pair<const char*, const char*>> settings[] = {
      {"TUTTI_ALGO", {"ring", "tree"}}, {"TUTTI_ALGO", {"", "^oneshot"}}, {"TUTTI_TRANSPORT", {"shm", "tcp"}}};
  for (const auto& [name, values] : settings) {
    const auto& [first, second] = values;
    const UniqueId id = UniqueId::create();
    std::array<std::string, 2> messages;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank, name = name, value = rank == 0 ? first : second] {
        Config config;
        (std::string(name) == "TUTTI_ALGO" ? config.algorithm : config.transport) = value;
        try {
          Communicator::connect(id, rank, 2, config);
        } catch (const Error& error) {
          messages[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    for (std::thread& rank : ranks) rank.join();
    for (const std::string& message : messages)
      CHECK_THAT(message, Catch::Contains(name) && Catch::Contains("rank 0 has '" + std::string(first) + "'") &&
                              Catch::Contains("rank 1 has '" + std::string(second) + "'"));
  }
}

TEST_CASE("abort ends a blocked call on every rank within a second") {
  on_threads(3, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(100ms);
      comm.abort("enough");
      comm.abort("again");
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<float> data(10);
    try {
      if (comm.rank() == 2) std::this_thread::sleep_for(10ms);
      for (;;) comm.all_reduce(std::span(data));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::aborted ||
          std::string(error.what()).find("rank 2 called abort: enough") == std::string::npos)
        throw;
    }
    if (std::chrono::steady_clock::now() - start > 1500ms) throw std::runtime_error("abort took too long");
  });
}

TEST_CASE("a rank that leaves while others go on is named; one that leaves after the last call is no fault") {
  const auto endings = in_processes(
      3,
      [](Communicator& comm) -> std::string {
        for (int i = 0; i < 5; ++i) comm.barrier();
        if (comm.rank() == 1) return "left";
        return reduce_until_error(comm, 4);
      },
      config_for(""));
  CHECK(endings[1].message == "left");
  for (const int rank : {0, 2})
    CHECK_THAT(endings[static_cast<std::size_t>(rank)].message,
               Catch::StartsWith("remote error: ") && Catch::Contains("rank 1"));

  for (int round = 0; round < 10; ++round) {
    const auto good = in_processes(
        4,
        [round](Communicator& comm) -> std::string {
          std::vector<float> data(50000, 1.0f);
          comm.all_reduce(std::span(data));
          if (comm.rank() == round % 4) ::usleep(20000);
          comm.barrier();
          return data.back() == 4 ? "ok" : "wrong";
        },
        config_for(round % 2 == 0 ? "shm" : "tcp"));
    for (const Ending& ending : good) CHECK(ending.message == "ok");
  }
}

TEST_CASE("one thread at a time: a second one is told so") {
  on_threads(2, [](Communicator& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(300ms);
      comm.barrier();
      return;
    }
    std::thread first([&] { comm.barrier(); });
    std::this_thread::sleep_for(100ms);
    std::string message;
    try {
      comm.barrier();
    } catch (const Error& error) {
      message = error.what();
    }
    first.join();
    if (message.find("two threads") == std::string::npos) throw std::runtime_error("not noticed: " + message);
  });
}

TEST_CASE("a forked child may not use its parent's communicator, and does it no harm") {
  const auto endings = in_processes(
      2,
      [](Communicator& comm) -> std::string {
        comm.barrier();
        const pid_t child = ::fork();
        if (child == 0) {
          try {
            comm.barrier();
          } catch (const Error& error) {
            ::_exit(std::string(error.what()).find("fork") != std::string::npos ? 7 : 8);
          }
          ::_exit(9);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        comm.barrier();
        return WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "killed";
      },
      config_for(""));
  for (const Ending& ending : endings) CHECK(ending.message == "7");
}

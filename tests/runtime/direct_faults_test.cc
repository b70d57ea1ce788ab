// Messages that are lent and placed when things go wrong or happen at once: memory that comes and goes, communicators
// that end with operations in flight, ranks that are killed while others use their memory.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "src/runtime/memory.h"
#include "tests/runtime/ranks.h"
#include "tutti/memory.h"

using namespace tutti;
using namespace std::chrono_literals;
using tutti::test::in_processes;
using tutti::test::on_threads;

namespace {

constexpr std::size_t kCount = 200'000;  // int32: far above where messages are lent and placed

// Fills `data` with 1 on every rank; what a sum over all ranks must make of it is their number.
void fill(std::byte* data) {
  const std::vector<std::int32_t> ones(kCount, 1);
  std::memcpy(data, ones.data(), kCount * 4);
}

bool all_are(const std::byte* data, std::int32_t value) {
  std::vector<std::int32_t> values(kCount);
  std::memcpy(values.data(), data, kCount * 4);
  return std::all_of(values.begin(), values.end(), [value](std::int32_t v) { return v == value; });
}

bool wait_for(const Work& work, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!work.test()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace

// Each engine's thread needs a descriptor that another's hands out, and nobody else drives.
TEST_CASE("engines map each other's new memory while they hand out their own") {
  for (const int ranks : {2, 3})
    for (const auto& ending : in_processes(ranks, [&](Communicator& comm) -> std::string {
           for (const std::string& algorithm : comm.algorithms(Collective::all_reduce)) {
             comm.force_algorithm(algorithm);
             for (int round = 0; round < 8; ++round) {
               const Memory data = alloc(kCount * 4);
               fill(data.data());
               comm.barrier();
               Work work = comm.all_reduce_async(data.data(), data.data(), kCount, DataType::int32);
               if (!wait_for(work, 5s)) return algorithm + ": not done in round " + std::to_string(round);
               work.wait();
               if (!all_are(data.data(), comm.size())) return algorithm + ": wrong in round " + std::to_string(round);
             }
           }
           return "";
         })) {
      INFO(ranks << " ranks: " << ending.message);
      CHECK(ending.status == 0);
      CHECK(ending.message.empty());
    }
}

// The rank with fewer elements announces an output that is too small for what the other would place there. The root's
// memory cannot be lent, so that it places. Both calls have slots of 64 KiB, of which the root fills four.
TEST_CASE("calls that do not match are refused before anything is placed") {
  for (const std::string algorithm : {"tree", "oneshot"})
    for (const auto& ending : in_processes(2, [&](Communicator& comm) -> std::string {
           comm.force_algorithm(algorithm);
           constexpr std::size_t few = 17'000, many = 60'000;
           std::vector<std::int32_t> ordinary(many, 5);
           const Memory memory = alloc(many * 4);
           const bool root = comm.rank() == 0;
           try {
             comm.broadcast(root ? ordinary.data() : memory.as<std::int32_t>().data(), root ? many : few,
                            DataType::int32, 0);
             return "no error";
           } catch (const Error& error) {
             if (error.code() != ErrorCode::invalid_usage) return error.what();
           }
           const auto beyond = memory.as<std::int32_t>().subspan(few);
           const bool clean = std::all_of(beyond.begin(), beyond.end(), [](std::int32_t v) { return v == 0; });
           return clean ? "" : "written beyond the output";
         })) {
      INFO(algorithm << ": " << ending.message);
      CHECK(ending.status == 0);
      CHECK(ending.message.empty());
    }
}

TEST_CASE("memory comes and goes on other threads while collectives use some") {
  const auto storm = [](const std::atomic<bool>& over, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Memory> held;
    while (!over) {
      held.push_back(alloc(random() % 300'000 + 1));
      held.back().data()[held.back().size() - 1] = std::byte{1};
      if (held.size() > 20) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
    }
  };
  for (const auto& ending : in_processes(2, [&](Communicator& comm) -> std::string {
         std::atomic<bool> over{false};
         std::vector<std::jthread> threads;
         for (unsigned i = 0; i < 3; ++i) threads.emplace_back([&, i] { storm(over, i); });
         std::string found;
         for (int round = 0; round < 40 && found.empty(); ++round) {
           const Memory data = alloc(kCount * 4);
           fill(data.data());
           comm.all_reduce(data.data(), data.data(), kCount, DataType::int32);
           if (!all_are(data.data(), comm.size())) found = "wrong in round " + std::to_string(round);
         }
         over = true;
         return found;
       })) {
    INFO(ending.message);
    CHECK(ending.status == 0);
    CHECK(ending.message.empty());
  }
}

TEST_CASE("communicators that end with operations in flight leave the buffers to their owner") {
  for (int round = 0; round < 12; ++round) {
    std::atomic<int> written{0};
    on_threads(3, [&](Communicator& given) {
      std::vector<std::int32_t> data(1'000'000, 1);
      {
        Communicator comm = std::move(given);
        std::vector<Work> works;
        try {
          for (int i = 0; i < 3; ++i)
            works.push_back(comm.all_reduce_async(data.data(), data.data(), data.size(), DataType::int32));
          if (comm.rank() == round % 3) {
            std::this_thread::sleep_for(std::chrono::microseconds(round * 150));
            const Communicator gone = std::move(comm);
          } else {
            works.back().wait();
          }
        } catch (const Error&) {
          // of the one that left
        }
      }
      std::fill(data.begin(), data.end(), -5);
      std::this_thread::sleep_for(30ms);
      if (std::any_of(data.begin(), data.end(), [](int v) { return v != -5; })) ++written;
    });
    CHECK(written == 0);
  }
}

TEST_CASE("a rank that is killed while others use its memory is named by them") {
  for (int round = 0; round < 8; ++round) {
    const int victim = round % 3;
    const auto endings = in_processes(3, [&](Communicator& comm) -> std::string {
      std::jthread killer;
      if (comm.rank() == victim)
        killer = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(10 + 3 * round));
          ::kill(::getpid(), SIGKILL);
        });
      try {
        for (;;) {
          const Memory data = alloc(kCount * 4);  // new each time: mapping it falls into the death, too
          comm.all_reduce(data.data(), data.data(), kCount, DataType::int32);
        }
      } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.what();
      }
    });
    for (int rank = 0; rank < 3; ++rank) {
      const auto& ending = endings[static_cast<std::size_t>(rank)];
      INFO("victim " << victim << ", rank " << rank << ": " << ending.message);
      if (rank == victim) {
        CHECK(ending.signal == SIGKILL);
      } else {
        CHECK(ending.status == 0);
        CHECK_THAT(ending.message,
                   Catch::StartsWith("remote error: ") && Catch::Contains("rank " + std::to_string(victim)));
      }
    }
  }
}

TEST_CASE("a child of fork() has memory whatever the other threads of its parent were about") {
  const Memory memory = alloc(5000);
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!over) runtime::find_segment(memory.data(), 1);
    });
  int stuck = 0;
  for (int i = 0; i < 100 && stuck == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(5);
      const Memory own = alloc(5000);
      ::_exit(own.data() == nullptr);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    stuck += status != 0;
  }
  over = true;
  CHECK(stuck == 0);
}

// Processes that end without a word, right after their last operation has returned: what they have sent still arrives.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "tests/runtime/ranks.h"

using namespace tutti;
using namespace tutti::test;
using namespace std::chrono_literals;

namespace {

Config config_for(const std::string& transport) {
  Config config;
  config.transport = transport;
  config.timeout = 30s;
  return config;
}

}  // namespace

TEST_CASE("a process that ends without destroying its communicator fails nobody's finished operation") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  // One message; messages that fill the ring once; data that fills the sockets' buffers as well.
  const auto count = GENERATE(std::size_t{2}, std::size_t{40'000}, std::size_t{6'000'000});
  const auto ranks = GENERATE(2, 3);
  const int rounds = count > 1'000'000 ? 6 : 12;
  for (int round = 0; round < rounds; ++round) {
    const int leaver = round % ranks;
    const auto endings = in_processes(
        ranks,
        [&](Communicator& comm) -> std::string {
          std::vector<std::int32_t> data(count, comm.rank() + 1);
          for (int call = 0; call < (round < rounds / 2 ? 1 : 4); ++call) {
            std::fill(data.begin(), data.end(), comm.rank() + 1);
            comm.all_reduce(std::span(data));
          }
          if (comm.rank() == leaver) ::_exit(0);
          const std::int32_t sum = ranks * (ranks + 1) / 2;
          return std::count(data.begin(), data.end(), sum) == static_cast<std::ptrdiff_t>(count) ? "ok" : "wrong";
        },
        config_for(transport));
    for (int rank = 0; rank < ranks; ++rank) {
      INFO(transport << ", count " << count << ", " << ranks << " ranks, round " << round << ", rank " << rank);
      if (rank != leaver) CHECK(endings[static_cast<std::size_t>(rank)].message == "ok");
    }
  }
}

TEST_CASE("what a root has broadcast arrives although its process is gone, also where others pass it on") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  const auto count = GENERATE(std::size_t{10}, std::size_t{300'000}, std::size_t{3'000'000});
  for (int round = 0; round < 6; ++round) {
    const int root = round % 3;
    const auto endings = in_processes(
        3,
        [&](Communicator& comm) -> std::string {
          std::vector<std::int32_t> data(count);
          comm.barrier();
          if (comm.rank() == root) std::iota(data.begin(), data.end(), round);
          comm.broadcast(std::span(data), root);
          if (comm.rank() == root) ::_exit(0);
          for (std::size_t i = 0; i < count; ++i)
            if (data[i] != static_cast<std::int32_t>(i) + round) return "wrong";
          return "ok";
        },
        config_for(transport));
    for (int rank = 0; rank < 3; ++rank) {
      INFO(transport << ", count " << count << ", round " << round << ", rank " << rank);
      if (rank != root) CHECK(endings[static_cast<std::size_t>(rank)].message == "ok");
    }
  }
}

TEST_CASE("what a root has broadcast waits for readers that come when its process is gone") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  Config config = config_for(transport);
  config.algorithm = "ring";
  // The second call fits the slots and the sockets' buffers, so that the root can leave before the reader has come.
  for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}, std::size_t{180'000}}) {
    const auto endings = in_processes(
        2,
        [&](Communicator& comm) -> std::string {
          std::vector<std::int32_t> data(count, 5);
          comm.broadcast(std::span(data), 0);
          comm.barrier();
          if (comm.rank() == 0) std::iota(data.begin(), data.end(), 1);
          if (comm.rank() == 1) ::usleep(200'000);
          comm.broadcast(std::span(data), 0);
          if (comm.rank() == 0) ::_exit(0);
          for (std::size_t i = 0; i < count; ++i)
            if (data[i] != static_cast<std::int32_t>(i) + 1) return "wrong";
          try {
            comm.barrier();  // this one needs the dead rank
          } catch (const Error& error) {
            return name_of(error.code()) == name_of(ErrorCode::remote_error) ? "ok" : error.what();
          }
          return "no error";
        },
        config);
    INFO(transport << ", count " << count);
    CHECK(endings[1].message == "ok");
  }
}

TEST_CASE("calls in the queue run to their end although a peer that had its share in them is gone") {
  const auto transport = GENERATE(as<std::string>{}, "shm", "tcp");
  for (int round = 0; round < 6; ++round) {
    const int leaver = round % 2;
    const auto endings = in_processes(
        2,
        [&](Communicator& comm) -> std::string {
          std::vector<std::vector<std::int32_t>> buffers(8, std::vector<std::int32_t>(100'000, comm.rank() + 1));
          std::vector<Work> works;
          for (auto& buffer : buffers) works.push_back(comm.all_reduce_async(std::span(buffer)));
          for (Work& work : works) work.wait();
          if (comm.rank() == leaver) ::_exit(0);
          for (const auto& buffer : buffers)
            if (std::count(buffer.begin(), buffer.end(), 3) != 100'000) return "wrong";
          return "ok";
        },
        config_for(transport));
    INFO(transport << ", round " << round);
    CHECK(endings[static_cast<std::size_t>(1 - leaver)].message == "ok");
  }
}

// Ranks of the C interface as threads of a test.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"

// A communicator of `size` ranks in this process, destroyed at the end.
class Ranks {
 public:
  explicit Ranks(int size, const int* devices = nullptr) : comms(static_cast<std::size_t>(size)) {
    REQUIRE(ncclCommInitAll(comms.data(), size, devices) == ncclSuccess);
  }
  ~Ranks() {
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int size() const { return static_cast<int>(comms.size()); }
  ncclComm_t operator[](int rank) const { return comms[static_cast<std::size_t>(rank)]; }

  std::vector<ncclComm_t> comms;
};

// Calls what(rank) on `size` threads at once; its results by rank. (Catch's checks belong to one thread.)
template <class What>
auto on_threads(int size, What what) {
  std::vector<decltype(what(0))> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { results[static_cast<std::size_t>(rank)] = what(rank); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline std::vector<ncclResult_t> all_succeed(int size) {
  return std::vector<ncclResult_t>(static_cast<std::size_t>(size), ncclSuccess);
}

// Until it is something other than in progress.
inline ncclResult_t poll(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    if (state == ncclInProgress) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return state;
}

// An environment variable for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

inline ncclConfig_t config_of(int blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  return config;
}

// Every rank's: rank + 1 in all elements.
inline std::vector<int> ones_of(int rank, std::size_t count) { return std::vector<int>(count, rank + 1); }
inline int sum_of_ones(int size) { return size * (size + 1) / 2; }

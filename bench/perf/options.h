// The command line of every *_perf program: nccl-tests' flags with their meaning and defaults, and a few of our own.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/guarded_buffer.h"
#include "tutti/types.h"

namespace tutti::perf {

enum class Average { rank0, mean, min, max };  // -a: how the ranks' times become one

enum class Blocking {
  none,               // 0: calls follow each other (a host call returns when it is complete)
  barrier_each_call,  // 1: a barrier after every call, inside the timed loop as in nccl-tests
  no_barrier,         // 2: the same as 0 for host memory
  barrier_each_loop,  // 3: as 0, and a barrier after each iteration's aggregated calls
};

struct Options {
  int threads = 1;           // -t
  int ranks_per_thread = 1;  // -g; threads * ranks_per_thread ranks as threads of this process
  std::size_t min_bytes = std::size_t{32} << 20;
  std::size_t max_bytes = std::size_t{32} << 20;
  std::size_t step_bytes = std::size_t{1} << 20;
  std::size_t step_factor = 1;  // above 1 it replaces step_bytes
  int iterations = 20;
  int warmup = 1;
  int aggregate = 1;
  int cycles = 1;  // 0: until interrupted
  int check = 1;   // checked calls after the timed loop; 0: no checks at all
  std::vector<ReduceOp> ops{ReduceOp::sum};
  std::vector<DataType> types{DataType::float32};
  std::vector<int> roots{0};  // {-1}: every rank
  Blocking blocking = Blocking::none;
  Average average = Average::mean;
  std::optional<std::chrono::milliseconds> timeout;
  bool cpu_time = false;
  bool timestamps = false;
  bool per_iteration = false;
  bool memory_report = false;
  int skip = 0;  // leading samples left out of per-iteration statistics
  std::string json_path;
  std::size_t misalign = 0;  // elements

  bool more = false;      // p50, p99, spread, chosen algorithm, predicted time
  bool touch = false;     // every rank rewrites its input and reads its output around each timed call
  std::string algorithm;  // force it
  BufferMemory memory = BufferMemory::ordinary;

  int thread_ranks() const { return threads * ranks_per_thread; }
  bool stamps_each_call() const { return per_iteration || more; }
};

// What -h prints, thrown by parse_options.
struct HelpRequested {
  std::string text;
};

// Throws HelpRequested, or Error(invalid_argument) that names the flag, its value and the valid ones.
Options parse_options(int argc, const char* const* argv);

// The sizes in bytes that the options ask for, ascending; max_bytes is among them when the steps meet it.
std::vector<std::size_t> sizes(const Options& options);

}  // namespace tutti::perf

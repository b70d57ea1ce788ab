// The timing method that every program of bench/peers shares, whatever library it drives.
//
// Method. The ranks of one run map one small file, the control page. It carries the barrier and the exchange of times,
// so that no library's own barrier is ever timed. For every size and variant:
//   1. a first call on fresh input, its whole output compared exactly with the expected sum;
//   2. warm-up calls until about a quarter of the loop's time has passed;
//   3. a barrier and the loop, about Settings::loop_ms long, at least kFewestCalls calls;
//   4. the whole output of one call compared again: of the loop's last call, or of a fresh one in place.
// The loop yields samples on every rank; of each sample the slowest rank's time counts, and the figure is the median of
// those. A call that is too slow for Settings::point_ms gets fewer calls and no warm-up, so a point's time is bounded.
// Variants of the loop:
//   touched    every rank writes its whole input anew before a call and reads its whole output after it; a barrier of
//              the control page comes just before the call, and only the call is timed: a sample per call. This is what
//              an application sees: data that its core has just written.
//   untouched  calls back to back on the same buffers, a sample per batch of calls (at most kMostBatches), its time
//              divided by its calls. Other benchmarks measure so. It flatters what reads a peer's memory, which stays
//              in the caches.
// Values are 16 random bits times 2^-12, so sums of up to 256 ranks are exact in float32, in any order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::peers {

inline constexpr int kMostRanks = 64;
inline constexpr std::size_t kFewestCalls = 4;
inline constexpr std::size_t kMostCalls = 50'000;
inline constexpr std::size_t kMostBatches = 64;

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// Flags of every program: --page FILE --out FILE --sizes BYTES,BYTES,... --loop-ms MS --point-ms MS
// [--variants touched,untouched] [--ranks N] [--bind 0|1] [--memory ordinary|tutti].
struct Settings {
  std::string page;
  std::string out;
  std::vector<std::size_t> sizes;
  double loop_ms = 40;
  double point_ms = 4000;
  bool touched = true;
  bool untouched = true;
  int ranks = 0;              // of a program that starts its ranks itself; 0: a launcher has started them
  bool bind = false;          // a program that no launcher binds does it itself
  bool tutti_memory = false;  // of tutti_bench: buffers of tutti::alloc

  // Throws std::runtime_error that names the flag, its value and the valid ones.
  static Settings from_arguments(int argc, char** argv);
};

// Of a program whose ranks run.py starts itself: RANK or WORLD_SIZE, or another variable that it sets. Throws
// std::runtime_error when it is not set.
std::string variable(const char* name);

// Binds the calling thread, and those it will start, to the index-th CPU that it may use, counted round and round.
// False, with errno, where the system does not let it.
bool bind_to_cpu(int index);
bool ranks_share_cores(int ranks);  // more ranks than cores: who waits should give its core away

// Barrier and exchange of figures and of libraries' addresses in a file that all ranks map; made (empty) by the driver,
// one per launch.
class ControlPage {
 public:
  // Blocks until all ranks have mapped it. Throws std::runtime_error, also from the calls below when a rank stays away
  // for longer than a minute.
  ControlPage(const std::string& path, int rank, int ranks);
  ~ControlPage();
  ControlPage(const ControlPage&) = delete;
  ControlPage& operator=(const ControlPage&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  void barrier();
  double max(double value);                    // the same number on every rank
  double sum(double value);                    // likewise
  void max_each(std::vector<double>& values);  // element by element; as many values on every rank
  // Rank r's `bytes` at `mine` to all + r * bytes, on every rank; as many bytes on every rank.
  void all_gather(const void* mine, std::size_t bytes, void* all);

 private:
  static constexpr std::size_t kCellValues = 512;

  struct alignas(64) Counter {
    std::atomic<std::uint32_t> value;
  };
  struct alignas(64) Cell {
    double values[kCellValues];
  };
  struct Layout {
    Counter arrived;
    Counter generation;
    Cell cells[kMostRanks];
  };

  int rank_;
  int ranks_;
  int polls_before_yield_;
  Layout* layout_ = nullptr;
};

// Element i of a rank's input in its `version`-th writing.
inline float value_of(std::size_t i, int rank, std::uint32_t version) {
  const std::uint32_t mixed =
      static_cast<std::uint32_t>(i) * 2654435761U + (static_cast<std::uint32_t>(rank) * 40503U + version) * 2246822519U;
  return static_cast<float>(mixed >> 16) * (1.0F / 4096);
}

void write_input(float* data, std::size_t count, int rank, std::uint32_t version);
std::size_t wrong_elements(const float* output, std::size_t count, int ranks, std::uint32_t version);
std::uint32_t read_all(const float* data, std::size_t count);  // a checksum, so that nothing is left out

// Page-aligned floats of the rank's own, every page touched: what a program's ordinary memory is.
class Buffer {
 public:
  explicit Buffer(std::size_t count);
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
};

struct Row {
  std::string_view algorithm;
  std::string_view variant;
  std::size_t bytes = 0;
  double us = 0;                          // median of the samples
  double quartile_1 = 0, quartile_3 = 0;  // of the samples
  double mean = 0;
  double cpu_us = 0;  // CPU time of all ranks by calls; touched, with what rewriting, reading and waiting take
  std::size_t calls = 0;
  std::size_t wrong = 0;  // elements, all ranks together
  std::string detail;
};

// Appends a row to Settings::out: algorithm, variant, bytes, us, calls, wrong, first and third quartile, mean, CPU us,
// detail, with tabs between.
void write_row(const Settings& settings, const Row& row);

double cpu_microseconds();  // of this process so far

// One library and algorithm at one size.
template <class Call>
class Measurement {
 public:
  // `call` reduces input to output; in place when they are the same buffer.
  Measurement(const Settings& settings, ControlPage& page, float* input, float* output, std::size_t count, Call& call)
      : settings_(settings), page_(page), input_(input), output_(output), count_(count), call_(call) {}

  Row run(bool touched) {
    Row row;
    row.variant = touched ? "touched" : "untouched";
    row.bytes = count_ * sizeof(float);
    row.calls = choose_calls(checked_call(), touched);
    const double cpu = cpu_microseconds();
    loop(row.calls, touched);
    const bool own_process = settings_.ranks == 0 || page_.rank() == 0;  // threads share theirs
    row.cpu_us = page_.sum(own_process ? cpu_microseconds() - cpu : 0) / static_cast<double>(row.calls);
    page_.max_each(samples_);
    summarise(row);
    if (input_ == output_)
      checked_call();
    else
      wrong_ += wrong_elements(output_, count_, page_.ranks(), version_);
    row.wrong = static_cast<std::size_t>(page_.sum(static_cast<double>(wrong_)));
    return row;
  }

 private:
  void rewrite() { write_input(input_, count_, page_.rank(), ++version_); }

  // The slowest rank's time of the call.
  double checked_call() {
    rewrite();
    page_.barrier();
    const Clock::time_point before = Clock::now();
    call_();
    const double time = page_.max(microseconds(Clock::now() - before));
    wrong_ += wrong_elements(output_, count_, page_.ranks(), version_);
    return time;
  }

  // Warms up and returns how many calls fill the loop's time, fewer where the point's time would not hold them.
  std::size_t choose_calls(double first_us, bool touched) {
    const double few = settings_.point_ms * 1000 / 2 / first_us;
    const std::size_t fewest = few < 1 ? 1 : few < kFewestCalls ? static_cast<std::size_t>(few) : kFewestCalls;
    if (fewest < kFewestCalls) return fewest;
    std::size_t calls = 1;
    double spent = 0;
    do {
      calls *= 2;
      spent = loop(calls, touched);
    } while (spent < settings_.loop_ms * 250 && calls < kMostCalls);
    const double wanted = settings_.loop_ms * 1000 / (spent / static_cast<double>(calls));
    if (wanted < kFewestCalls) return kFewestCalls;
    return wanted < kMostCalls || !touched ? static_cast<std::size_t>(wanted) : kMostCalls;
  }

  // Fills samples_; returns the slowest rank's microseconds for all of it.
  double loop(std::size_t calls, bool touched) {
    samples_.clear();
    samples_.reserve(touched ? calls : kMostBatches);
    page_.barrier();
    const Clock::time_point start = Clock::now();
    touched ? touched_calls(calls) : untouched_calls(calls);
    return page_.max(microseconds(Clock::now() - start));
  }

  void touched_calls(std::size_t calls) {
    for (std::size_t i = 0; i < calls; ++i) {
      rewrite();
      page_.barrier();
      const Clock::time_point before = Clock::now();
      call_();
      const Clock::time_point after = Clock::now();
      sink_ += read_all(output_, count_);
      samples_.push_back(microseconds(after - before));
    }
  }

  void untouched_calls(std::size_t calls) {
    const std::size_t batches = calls < kMostBatches ? calls : kMostBatches;
    Clock::time_point before = Clock::now();
    for (std::size_t batch = 0; batch < batches; ++batch) {
      const std::size_t size = calls / batches + (batch < calls % batches ? 1 : 0);
      for (std::size_t i = 0; i < size; ++i) call_();
      const Clock::time_point after = Clock::now();
      samples_.push_back(microseconds(after - before) / static_cast<double>(size));
      before = after;
    }
  }

  void summarise(Row& row) const;

  const Settings& settings_;
  ControlPage& page_;
  float* input_;
  float* output_;
  std::size_t count_;
  Call& call_;
  std::uint32_t version_ = 0;
  std::size_t wrong_ = 0;
  std::uint32_t sink_ = 0;
  std::vector<double> samples_;
};

void summarise_samples(const std::vector<double>& samples, Row& row);

template <class Call>
void Measurement<Call>::summarise(Row& row) const {
  summarise_samples(samples_, row);
}

enum class Placement { out_of_place, in_place };

// Measures every size and variant. prepare(input, output, count) returns the call; describe(count) the row's detail;
// allocate(count) something that owns page-aligned memory and has data(), twice per size: input, then output.
template <class Prepare, class Describe, class Allocate>
void measure_sizes(const Settings& settings, ControlPage& page, std::string_view algorithm, Placement placement,
                   Prepare prepare, Describe describe, Allocate allocate) {
  for (const std::size_t bytes : settings.sizes) {
    const std::size_t count = bytes / sizeof(float);
    const auto input = allocate(count);
    const auto separate = allocate(placement == Placement::in_place ? 0 : count);
    float* output = placement == Placement::in_place ? input.data() : separate.data();
    auto call = prepare(static_cast<const float*>(input.data()), output, count);
    for (const bool touched : {true, false}) {
      if (!(touched ? settings.touched : settings.untouched)) continue;
      Row row = Measurement(settings, page, input.data(), output, count, call).run(touched);
      row.algorithm = algorithm;
      row.detail = describe(count);
      if (page.rank() == 0) write_row(settings, row);
    }
    page.barrier();  // nobody frees what another may still read
  }
}

// In the rank's ordinary memory.
template <class Prepare, class Describe>
void measure_sizes(const Settings& settings, ControlPage& page, std::string_view algorithm, Placement placement,
                   Prepare prepare, Describe describe) {
  measure_sizes(settings, page, algorithm, placement, prepare, describe,
                [](std::size_t count) { return Buffer(count); });
}

}  // namespace tutti::peers

// The timing method that every program of bench/peers shares, whatever library it drives.
//
// Method. The ranks of one run map one small file, the control page. It carries the barrier and the maximum over ranks,
// so that no library's own barrier is ever timed. For every size and variant:
//   1. a first call on fresh input, its whole output compared exactly with the expected sum;
//   2. warm-up calls until about a quarter of the loop's time has passed;
//   3. the loop, about Settings::loop_ms long, at least kFewestCalls calls;
//   4. the whole output of one call compared again: of the loop's last call, or of a fresh one in place.
// Variants of the loop:
//   touched    every rank writes its whole input anew before a call and reads its whole output after it; a barrier of
//              the control page comes just before the call and only the call is timed. The figure is the mean over
//              calls of the slowest rank's time. This is what an application sees: data that its core has just written.
//   untouched  calls back to back on the same buffers; the figure is the slowest rank's loop time by the number of
//              calls. Other benchmarks measure so. It flatters what reads a peer's memory, which stays in the caches.
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
inline constexpr int kFewestCalls = 3;

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// Flags of every program: --page FILE --out FILE --sizes BYTES,BYTES,... --loop-ms MS [--variants touched,untouched].
struct Settings {
  std::string page;
  std::string out;
  std::vector<std::size_t> sizes;
  double loop_ms = 40;
  bool touched = true;
  bool untouched = true;

  // Throws std::runtime_error that names the flag, its value and the valid ones.
  static Settings from_arguments(int argc, char** argv);
};

// Barrier and maximum over ranks in a file that all ranks map; made (empty) by the driver, one per launch.
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
  double max(double value);  // the same number on every rank

 private:
  struct alignas(64) Counter {
    std::atomic<std::uint32_t> value;
  };
  struct alignas(64) Cell {
    double value[2];  // by turns, so that a fast rank cannot overwrite what a slow one has yet to read
  };
  struct Layout {
    Counter arrived;
    Counter generation;
    Cell cells[kMostRanks];
  };

  int rank_;
  int ranks_;
  int turn_ = 0;
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

// Page-aligned floats, every page touched.
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
  double us = 0;
  std::size_t calls = 0;
  std::size_t wrong = 0;  // elements, all ranks together
  std::string detail;
};

// Appends rows to Settings::out on rank 0: algorithm, variant, bytes, us, calls, wrong, detail, with tabs between.
void write_row(const Settings& settings, const Row& row);

// One library and algorithm at one size.
template <class Call>
class Measurement {
 public:
  // `call` reduces input to output; in place when they are the same buffer.
  Measurement(const Settings& settings, ControlPage& page, const Buffer& input, const Buffer& output, std::size_t count,
              Call& call)
      : settings_(settings), page_(page), input_(input.data()), output_(output.data()), count_(count), call_(call) {}

  Row run(bool touched) {
    Row row;
    row.variant = touched ? "touched" : "untouched";
    row.bytes = count_ * sizeof(float);
    checked_call();
    double spent = 0;
    std::size_t calls = 1;
    const double warm_up_us = settings_.loop_ms * 250;
    do {
      calls *= 2;
      spent = loop(calls, touched).wall_us;
    } while (spent < warm_up_us);
    const double wanted = settings_.loop_ms * 1000 / (spent / static_cast<double>(calls));
    row.calls = static_cast<std::size_t>(wanted < kFewestCalls ? kFewestCalls : wanted);
    row.us = loop(row.calls, touched).us_per_call;
    if (input_ == output_)
      checked_call();
    else
      wrong_ += wrong_elements(output_, count_, page_.ranks(), version_);
    row.wrong = total_wrong();
    return row;
  }

 private:
  struct Timed {
    double us_per_call;
    double wall_us;
  };

  void rewrite() { write_input(input_, count_, page_.rank(), ++version_); }

  void checked_call() {
    rewrite();
    page_.barrier();
    call_();
    wrong_ += wrong_elements(output_, count_, page_.ranks(), version_);
  }

  Timed loop(std::size_t calls, bool touched) {
    page_.barrier();
    const Clock::time_point start = Clock::now();
    double timed = touched ? touched_calls(calls) : untouched_calls(calls);
    return {timed / static_cast<double>(calls), page_.max(microseconds(Clock::now() - start))};
  }

  double touched_calls(std::size_t calls) {
    double timed = 0;
    for (std::size_t i = 0; i < calls; ++i) {
      rewrite();
      page_.barrier();
      const Clock::time_point before = Clock::now();
      call_();
      const Clock::time_point after = Clock::now();
      sink_ += read_all(output_, count_);
      timed += page_.max(microseconds(after - before));
    }
    return timed;
  }

  double untouched_calls(std::size_t calls) {
    const Clock::time_point before = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) call_();
    return page_.max(microseconds(Clock::now() - before));
  }

  std::size_t total_wrong() {
    std::size_t total = 0;
    for (int rank = 0; rank < page_.ranks(); ++rank)
      total += static_cast<std::size_t>(page_.max(rank == page_.rank() ? static_cast<double>(wrong_) : 0));
    return total;
  }

  const Settings& settings_;
  ControlPage& page_;
  float* input_;
  float* output_;
  std::size_t count_;
  Call& call_;
  std::uint32_t version_ = 0;
  std::size_t wrong_ = 0;
  std::uint32_t sink_ = 0;
};

enum class Placement { out_of_place, in_place };

// Measures every size and variant. prepare(input, output, count) returns the call; describe(count) the row's detail.
template <class Prepare, class Describe>
void measure_sizes(const Settings& settings, ControlPage& page, std::string_view algorithm, Placement placement,
                   Prepare prepare, Describe describe) {
  for (const std::size_t bytes : settings.sizes) {
    const std::size_t count = bytes / sizeof(float);
    const Buffer input(count);
    const Buffer separate(placement == Placement::in_place ? 0 : count);
    const Buffer& output = placement == Placement::in_place ? input : separate;
    auto call = prepare(static_cast<const float*>(input.data()), output.data(), count);
    for (const bool touched : {true, false}) {
      if (!(touched ? settings.touched : settings.untouched)) continue;
      Row row = Measurement(settings, page, input, output, count, call).run(touched);
      row.algorithm = algorithm;
      row.detail = describe(count);
      if (page.rank() == 0) write_row(settings, row);
    }
    page.barrier();  // nobody frees what another may still read
  }
}

}  // namespace tutti::peers

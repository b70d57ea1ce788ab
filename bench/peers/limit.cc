// What this machine gives two processes, to judge the tables by: no library is involved. Prints one line per figure:
// name, value, unit, with tabs between.
//   cache line    handed to the other core and back
//   memcpy        bytes copied per second by one process alone, and by each of two at once
//   loopback TCP  a message to the other process and back, asleep or spinning while it waits; one stream, one way
// The two processes are bound to the first two cores that this one may use. On a virtual machine the host decides where
// those really are and may change its mind, so the driver runs this once per round, and with --cache-line, for that
// figure alone, before every launch.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/harness.h"
#include "bench/peers/loopback.h"

namespace {

using namespace tutti::peers;

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMostCopied = 64 * kMiB;
constexpr std::size_t kBytesPerCopyFigure = 192 * kMiB;
constexpr std::chrono::seconds kPatience{20};

struct alignas(64) Flag {
  std::atomic<std::uint32_t> value;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Process {
 public:
  Process(Flag* flags, LoopbackConnection& connection, int self)
      : flags_(flags), connection_(connection), self_(self) {}

  void cache_line() { report("cache line round trip", round_trip(20000) * 1e9, "ns"); }

  void everything() {
    cache_line();
    from_.assign(kMostCopied, 1);
    to_.assign(kMostCopied, 2);
    for (const auto& [name, bytes] : {std::pair{"16 KiB", 16 * kKiB}, std::pair{"512 KiB", 512 * kKiB},
                                      std::pair{"16 MiB", 16 * kMiB}, std::pair{"64 MiB", kMostCopied}}) {
      report(std::string("memcpy of ") + name + " alone", copy(bytes, false) / 1e9, "GB/s");
      report(std::string("memcpy of ") + name + ", both", copy(bytes, true) / 1e9, "GB/s");
    }
    tcp("8 B", 8, 1000);
    tcp("64 KiB", 64 * kKiB, 500);
    meet();
    report("loopback TCP stream", connection_.stream(self_, 256 * kMiB, 256 * kKiB) / 1e9, "GB/s");
  }

 private:
  void set(std::uint32_t value) { flags_[self_].value.store(value, std::memory_order_release); }

  void await(std::uint32_t value) {
    const std::atomic<std::uint32_t>& flag = flags_[1 - self_].value;
    for (std::uint32_t polls = 1; static_cast<std::int32_t>(flag.load(std::memory_order_acquire) - value) < 0;
         ++polls) {
      if (polls % (1U << 20) != 0) continue;
      if (Clock::now() - begin_ > kPatience) throw std::runtime_error("the other process has gone");
      sched_yield();
    }
  }

  void meet() {
    set(++step_);
    await(step_);
  }

  double round_trip(int times) {
    meet();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) {
      ++step_;
      if (self_ == 0) set(step_);
      await(step_);
      if (self_ == 1) set(step_);
    }
    return seconds_since(start) / times;
  }

  // Bytes per second of process 0; the other copies too, or waits.
  double copy(std::size_t bytes, bool both) {
    const std::size_t times = kBytesPerCopyFigure / bytes;
    std::memcpy(to_.data(), from_.data(), bytes);
    meet();
    const Clock::time_point start = Clock::now();
    if (both || self_ == 0)
      for (std::size_t i = 0; i < times; ++i) {
        std::memcpy(to_.data(), from_.data(), bytes);
        asm volatile("" : : "r"(to_.data()) : "memory");
      }
    const double seconds = seconds_since(start);
    meet();
    return static_cast<double>(times * bytes) / seconds;
  }

  void tcp(const std::string& name, std::size_t bytes, int rounds) {
    meet();
    const double sleeping = connection_.ping_pong(self_, bytes, rounds, Receive::sleeping);
    meet();
    const double spinning = connection_.ping_pong(self_, bytes, rounds, Receive::spinning);
    report("loopback TCP round trip of " + name + ", asleep", sleeping * 1e6, "us");
    report("loopback TCP round trip of " + name + ", spinning", spinning * 1e6, "us");
  }

  void report(const std::string& name, double value, const char* unit) const {
    if (self_ == 0) std::printf("%s\t%.4g\t%s\n", name.c_str(), value, unit);
  }

  Flag* flags_;
  LoopbackConnection& connection_;
  int self_;
  std::uint32_t step_ = 0;
  std::vector<char> from_;
  std::vector<char> to_;
  Clock::time_point begin_ = Clock::now();
};

bool measure(Flag* flags, LoopbackConnection& connection, int self, bool cache_line_only) try {
  bind_to_cpu(self);
  Process process(flags, connection, self);
  cache_line_only ? process.cache_line() : process.everything();
  return true;
} catch (const std::exception& error) {
  std::fprintf(stderr, "limit: process %d: %s\n", self, error.what());
  return false;
}

}  // namespace

int main(int argc, char** argv) try {
  const bool cache_line_only = argc == 2 && std::string(argv[1]) == "--cache-line";
  if (argc > 1 && !cache_line_only) throw std::runtime_error("unknown arguments; valid: none, or --cache-line");
  void* memory = mmap(nullptr, 2 * sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map shared memory");
  LoopbackConnection connection;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  const bool good = measure(static_cast<Flag*>(memory), connection, child == 0 ? 1 : 0, cache_line_only);
  if (child == 0) _exit(good ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return good && status == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "limit: %s\n", error.what());
  return 1;
}

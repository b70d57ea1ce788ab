// What this machine gives two processes, to judge the tables by: no library is involved. Prints one line per figure:
// name, value, unit, with tabs between.
//   round trip   one cache line handed to the other core and back
//   exchange     each process copies N bytes into shared memory that the other read before, sets a flag, waits for the
//                other's flag and copies the other's N bytes out: the least that an all-reduce of N bytes between
//                private buffers has to move, without the sum
//   copy         memcpy of 64 MiB, both processes at once, bytes copied per second by each
// The two processes are bound to the first two cores that this one may use. On a virtual machine the host decides where
// those really are and may change its mind, so the driver runs this once per round.
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
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
constexpr std::chrono::seconds kPatience{20};

struct alignas(64) Flag {
  std::atomic<std::uint32_t> value;
};

struct Shared {
  Flag flag[2];
  alignas(4096) char slot[2][2][kSlotBytes];  // of each process, by turns
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Plain vector loads and stores: memcpy may use string instructions, which are slow on lines that another core holds.
typedef long long Vector __attribute__((vector_size(16), may_alias));

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void copy_vectors(char* to, const char* from,
                                                                                std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(Vector))
    *reinterpret_cast<Vector*>(to + i) = *reinterpret_cast<const Vector*>(from + i);
}

void bind_to(int index) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

class Process {
 public:
  Process(Shared& shared, int self) : shared_(shared), self_(self), from_(kCopyBytes, 1), to_(kCopyBytes, 2) {}

  void run() {
    report("round trip", round_trip(20000) * 1e9, "ns");
    report("exchange of 16 B", exchange(16) * 1e6, "us");
    report("of 4 KiB", exchange(std::size_t{4} << 10) * 1e6, "us");
    report("of 64 KiB", exchange(std::size_t{64} << 10) * 1e6, "us");
    report("of 1 MiB", exchange(kSlotBytes) * 1e6, "us");
    report("copy", static_cast<double>(kCopyBytes) / copy() / 1e9, "GB/s");
  }

 private:
  void set(std::uint32_t value) { shared_.flag[self_].value.store(value, std::memory_order_release); }

  void await(std::uint32_t value) {
    const std::atomic<std::uint32_t>& flag = shared_.flag[1 - self_].value;
    for (std::uint32_t polls = 1; static_cast<std::int32_t>(flag.load(std::memory_order_acquire) - value) < 0;
         ++polls) {
      if (polls % (1U << 20) != 0) continue;
      if (Clock::now() - begin_ > kPatience) _exit(1);
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

  double exchange(std::size_t bytes) {
    const int times = static_cast<int>(400'000'000 / (bytes + 20'000));
    meet();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; ++i) {
      copy_vectors(shared_.slot[self_][i % 2], from_.data(), bytes);
      meet();
      copy_vectors(to_.data(), shared_.slot[1 - self_][i % 2], bytes);
    }
    return seconds_since(start) / times;
  }

  double copy() {
    constexpr int kTimes = 4;
    meet();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kTimes; ++i) std::memcpy(to_.data(), from_.data(), kCopyBytes);
    const double seconds = seconds_since(start);
    meet();
    return seconds / kTimes;
  }

  void report(const std::string& name, double value, const char* unit) const {
    if (self_ == 0) std::printf("%s\t%.4g\t%s\n", name.c_str(), value, unit);
  }

  Shared& shared_;
  int self_;
  std::uint32_t step_ = 0;
  std::vector<char> from_;
  std::vector<char> to_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

int main() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("limit: cannot map shared memory");
    return 1;
  }
  Shared& shared = *static_cast<Shared*>(memory);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("limit: cannot fork");
    return 1;
  }
  bind_to(child == 0 ? 1 : 0);
  Process(shared, child == 0 ? 1 : 0).run();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

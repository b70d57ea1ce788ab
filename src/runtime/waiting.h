// How a thread waits for other ranks. A cache line from another core takes 0.2 us, giving up the core costs some
// microseconds, and waking from a sleep costs tens: so spin when every rank has a core, give up the core after a few
// polls when ranks share cores, and sleep only after milliseconds without progress. But a core is given up to threads
// of the same scheduling group only (topology::scheduling_group). Where ranks that share cores are in several, as under
// MPICH's mpirun or in a container each, a yield makes them wait for the end of a time slice, milliseconds; a sleep,
// for as long as the kernel's timers take.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti::runtime {

using Clock = std::chrono::steady_clock;

inline void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What the ranks of a host have: a core each; cores that they share; or cores that they share but cannot give up to
// each other.
enum class Cores : std::uint8_t { own, shared, shared_between_groups };

class Waiter {
 public:
  // What the caller is to do next.
  enum class Next : std::uint8_t {
    poll,   // look for news
    look,   // and at the clock, the deadline and the control plane
    sleep,  // by parking (parking.h), and then the same; only if it can
  };

  // Without parking it naps instead.
  Waiter(Cores cores, bool can_park)
      : spins_(cores == Cores::own ? kSpins : kSpinsOnSharedCores), cores_(cores), can_park_(can_park) {}

  // Something moved: the wait starts anew.
  void reset() { polls_ = 0; }

  // Passes a little time, unless the caller is to sleep.
  Next pause() {
    if (++polls_ <= spins_) {
      // A message from a rank that is as far as we are is about to come: look again at once, then less greedily.
      if (cores_ != Cores::own || polls_ > kEagerPolls) cpu_relax();
      return Next::poll;
    }
    const Clock::time_point now = Clock::now();
    if (polls_ == spins_ + 1) since_ = now;
    waited_ = now - since_;
    if (waited_ > kSleepAfter) {
      if (can_park_) return Next::sleep;
      nap(waited_ > 20 * kSleepAfter ? 500'000 : 50'000);
    } else if (cores_ == Cores::shared_between_groups) {
      nap(1);  // takes some 50 us; parking instead took a tenth longer with 4 ranks under MPICH's mpirun
    } else if (cores_ == Cores::shared || waited_ > kYieldAfter) {
      ::sched_yield();
    } else {
      for (int i = 0; i < 16; ++i) cpu_relax();
    }
    return Next::look;
  }

  static void nap(long nanoseconds) {
    const timespec time{0, nanoseconds};
    ::nanosleep(&time, nullptr);
  }

  Clock::duration waited() const { return polls_ > spins_ ? waited_ : Clock::duration::zero(); }

 private:
  static constexpr unsigned kSpins = 400;
  // Whom we wait for is likely to wait for our core: with 4 and 8 ranks on 2 cores, all_reduce_perf took a quarter
  // longer with 20 up to 2 KiB, and a tenth at 32 KiB. The executor polls more than once between two pauses.
  static constexpr unsigned kSpinsOnSharedCores = 2;
  static constexpr unsigned kEagerPolls = 32;
  // Not much later: on a machine in use the system may have put two ranks onto one core although each could have its
  // own.
  static constexpr Clock::duration kYieldAfter = std::chrono::microseconds(20);
  static constexpr Clock::duration kSleepAfter = std::chrono::milliseconds(5);

  unsigned polls_ = 0;
  unsigned spins_;
  Cores cores_;
  bool can_park_;
  Clock::time_point since_;
  Clock::duration waited_{};
};

}  // namespace tutti::runtime

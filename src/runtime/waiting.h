// How a thread waits for other ranks. A cache line from another core takes 0.2 us, giving up the core costs some
// microseconds, and waking from a sleep costs tens: so spin when every rank has a core, give up the core after a few
// polls when ranks share cores, and sleep only after milliseconds without progress.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>

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

class Waiter {
 public:
  explicit Waiter(bool ranks_share_cores) : spins_(ranks_share_cores ? 20 : 400), shared_(ranks_share_cores) {}

  // Something moved: the wait starts anew.
  void reset() { polls_ = 0; }

  // Passes a little time. True when it is time to look at the clock, the deadline and the control plane as well.
  bool pause() {
    if (++polls_ <= spins_) {
      // A message from a rank that is as far as we are is about to come: look again at once, then less greedily.
      if (shared_ || polls_ > kEagerPolls) cpu_relax();
      return false;
    }
    const Clock::time_point now = Clock::now();
    if (polls_ == spins_ + 1) since_ = now;
    waited_ = now - since_;
    if (waited_ > kSleepAfter) {
      const timespec nap{0, waited_ > 20 * kSleepAfter ? 500'000 : 50'000};
      ::nanosleep(&nap, nullptr);
    } else if (shared_ || waited_ > kYieldAfter) {
      ::sched_yield();
    } else {
      for (int i = 0; i < 16; ++i) cpu_relax();
    }
    return true;
  }

  Clock::duration waited() const { return polls_ > spins_ ? waited_ : Clock::duration::zero(); }

 private:
  static constexpr unsigned kEagerPolls = 32;
  static constexpr Clock::duration kYieldAfter = std::chrono::microseconds(200);
  static constexpr Clock::duration kSleepAfter = std::chrono::milliseconds(5);

  unsigned polls_ = 0;
  unsigned spins_;
  bool shared_;
  Clock::time_point since_;
  Clock::duration waited_{};
};

}  // namespace tutti::runtime

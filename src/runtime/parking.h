// Sleeping until a peer has news, without a system call in the peer's way while nobody sleeps.
//
// Each rank has a flag in its arena, `parked`, and a bell, a descriptor that peers can make readable. How no news is
// lost, the sleeper (left) and a peer with news (right) doing in this order:
//
//   parked = 1                         publishes a message, a release or an address
//   a barrier in every peer's process  [here the barrier of the left side may strike]
//   looks for news once more           looks at parked; if it is set, clears it and rings
//   sleeps until the bell rings
//
// The barrier (membarrier, global expedited) makes every running thread of the registered processes order its stores
// and loads around one moment. A peer that published before that moment is seen by the second look; one that published
// after it looks at `parked` after it as well, and sees the 1. So the peer's side needs no fence: one load of a line
// that hardly ever changes. Without the system call in some rank's process nobody parks; see Waiter.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "src/base/fd.h"

namespace tutti::runtime {

// Makes this process one that barriers reach. False when the kernel cannot.
bool register_for_barriers();

class Parking {
 public:
  // How long one sleep lasts at most: faults and deadlines are looked at in between.
  static constexpr std::chrono::milliseconds kLongest{10};

  // `flag` is this rank's in its arena; `bell` becomes readable when a peer rings. Both outlive this.
  Parking(std::atomic<std::uint32_t>& flag, int bell) : flag_(flag), bell_(bell) {}

  // The steps of the left side; one thread at a time. Between prepare() and sleep() the caller looks for news.
  void prepare();
  void sleep() const;
  void leave() { flag_.store(0, std::memory_order_relaxed); }
  int bell() const { return bell_; }

 private:
  std::atomic<std::uint32_t>& flag_;
  const int bell_;
};

// The right side's look. True when the peer is to be rung.
inline bool take_parked(std::atomic<std::uint32_t>& flag) {
  std::atomic_signal_fence(
      std::memory_order_seq_cst);  // the compiler keeps the order; the barrier sees to the processor
  return flag.load(std::memory_order_relaxed) != 0 && flag.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace tutti::runtime

// Sleeping until there is news, without a system call in a peer's way while nobody sleeps.
//
// News comes to a rank by its **bells**, descriptors that become readable: a socket that ranks of the same host ring,
// and what the kernel itself makes readable when bytes arrive from elsewhere (Transport::bell). Ranks of the same host
// look at a flag in the sleeper's arena, `parked`, before they ring. How no news is lost, the sleeper (left) and a peer
// with news (right) doing in this order:
//
//   hears the rings of before
//   parked = 1                         publishes a message, a release or an address
//   a barrier in every peer's process  [here the barrier of the left side may strike]
//   looks for news once more           looks at parked; if it is set, clears it and rings
//   sleeps until a bell rings
//
// The barrier (membarrier, global expedited) makes every running thread of the registered processes order its stores
// and loads around one moment. A peer that published before that moment is seen by the second look; one that published
// after it looks at `parked` after it as well, and sees the 1. So the peer's side needs no fence: one load of a line
// that hardly ever changes. Without the system call in some rank's process nobody parks; see Waiter.
//
// Of peers elsewhere: the second look takes all that the sockets have (Transport::settle), so whatever arrives after it
// makes a bell readable that was not, and whatever arrived before it has been seen.
//
// One thread at a time goes through the steps from the first to the second look: the one that drives. Were there two,
// one might hear the ring that was meant for the other, or clear the flag that the other sleeps by. Only the engine's
// thread sleeps without the drive; whoever takes the drive meanwhile sees all news itself, and wakes the engine if it
// leaves it something to do.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::runtime {

// Makes this process one that barriers reach. False when the kernel cannot.
bool register_for_barriers();

class Parking {
 public:
  // `flag` is this rank's in its arena; null when no peer rings. `bells` become readable when there may be news. All
  // outlive this.
  Parking(std::atomic<std::uint32_t>* flag, const std::vector<int>& bells);

  // The steps of the left side, by the thread that drives. Between prepare() and sleep() the caller looks for news.
  void prepare();
  // Until a bell rings, `other` is readable (-1: none) or `limit` has passed.
  void sleep(std::chrono::milliseconds limit, int other = -1);
  // Peers need not ring any more.
  void leave() {
    if (std::exchange(raised_, false)) flag_->store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t>* const flag_;
  std::vector<pollfd> ends_;  // what may end a sleep: the bells, then `other`
  bool raised_ = false;
};

// The right side's look. True when the peer is to be rung.
inline bool take_parked(std::atomic<std::uint32_t>& flag) {
  std::atomic_signal_fence(
      std::memory_order_seq_cst);  // the compiler keeps the order; the barrier sees to the processor
  return flag.load(std::memory_order_relaxed) != 0 && flag.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace tutti::runtime

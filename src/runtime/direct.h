// Direct transfers: messages that are not copied through a slot because one end reaches the other's buffer.
//
// lent    the slot's header says where the data lies in the sender's memory, and the receiving Step reads it there
// placed  the receiver has announced where its output lies, and the sending Step writes it there
//
// The sender decides for each message; a call in which nothing can be reached copies everything. Which schedules are
// safe for it the verifier proves (Schedule::direct). Two things are owed to the user:
//   - An operation returns only when nobody will touch its buffers any more. Who places or lends waits for that anyway:
//     a placed message has arrived, a lent one is released or, on ports that nobody acknowledges, proved read.
//   - An operation that fails must keep peers that are in its midst away from the buffers. Each rank raises `touching`
//     in its own arena while it touches another's memory, then looks at that rank's `revoked`; a rank that fails raises
//     its `revoked` and waits until nobody is touching. Both are sequentially consistent, so that at least one of the
//     two sees the other's (Dekker).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/runtime/parking.h"

namespace tutti::runtime {

// Messages below this are copied: two cache misses for addresses would cost more.
inline constexpr std::size_t kDirectFrom = std::size_t{16} << 10;

// How a peer gets at this rank's memory.
enum class Reach : std::uint8_t {
  none,     // not at all
  mapped,   // what tutti::alloc gave, by mapping it too
  process,  // everything: it is a thread of the same process
};

// Where data lies: for threads of the same process, and for processes of the same host.
struct MemoryAddress {
  const std::byte* local = nullptr;
  std::uint64_t segment = 0;  // of tutti::alloc in the owner's process; 0: none
  std::uint64_t offset = 0;

  bool reachable(Reach reach) const { return reach == Reach::process || (reach == Reach::mapped && segment != 0); }
  MemoryAddress at(std::size_t bytes) const { return {local + bytes, segment, offset + bytes}; }
};

// What the slot of a lent message holds.
struct LentMessage {
  MemoryAddress at;
  std::uint64_t factor = 0;  // of a raw contribution that its operator pre-scales: the sender's own
};

class Transport;

// A peer of the same host, as seen from here.
struct PeerMemory {
  Transport* transport = nullptr;
  int rank = -1;
  Reach reach = Reach::none;
  struct DirectFlags* flags = nullptr;           // the peer's; null when nothing is reached
  std::atomic<std::uint32_t>* parked = nullptr;  // the peer's (parking.h); null when it is never rung

  // After something that the peer may wait for.
  void wake() const {
    if (parked != nullptr && take_parked(*parked)) ring();
  }
  void ring() const;
};

// The two flags above; they lie in the owner's arena.
struct DirectFlags {
  alignas(128) std::atomic<std::uint32_t> touching;  // how many of its threads of control touch others' memory: 0 or 1
  alignas(128) std::atomic<std::uint32_t> revoked;
};

}  // namespace tutti::runtime

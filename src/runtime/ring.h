// A ring of slots: the memory through which every message of a port goes, whatever the transport.
//
// The writer's ring lies in the writer's arena. Readers on the same host map it and poll it; for a reader elsewhere a
// transport acts as that reader: it moves each message into a ring of equal geometry on the reader's host and releases
// the slot. So the executor knows rings only.
//
// Layout:   one 128-byte line per reader, written by that reader only: messages released, and where it wants messages
//           placed (direct.h)
//           slots, each a 64-byte SlotHeader followed by `slot_bytes` of payload
// Protocol: the n-th message (n = 0, 1, ...) uses slot n % slots. The writer fills the payload, then publishes it by a
//           release store of the stamp; a reader takes it by an acquire load that equals the stamp it waits for.
//           A payload of at most kInlineBytes lies in the header, so data and flag are one cache line.
//           The address of a lent message lies in the header too; of a placed one there is nothing in the slot.
//           A reader announces its address by a release store of the operation's stamp. It may do so again for the next
//           operation, because it has taken a message of this one, which the writer sent after it had read the address.
//           The stamp carries the communicator's epoch: a late write of an aborted operation is never taken for data.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/runtime/direct.h"

namespace tutti::runtime {

inline constexpr std::size_t kInlineBytes = 48;
inline constexpr std::size_t kReaderLine = 128;  // two lines: the adjacent-line prefetcher pairs them

struct alignas(64) SlotHeader {
  static constexpr std::uint32_t kLent = 1u << 31;      // inline_data holds a LentMessage
  static constexpr std::uint32_t kPlaced = 1u << 30;    // the data is where the reader wanted it
  static constexpr std::uint32_t kPrescale = 1u << 29;  // of a lent message: a raw contribution to pre-scale
  static constexpr std::uint32_t kBytes = kPrescale - 1;

  std::atomic<std::uint64_t> stamp;
  std::uint32_t size;         // bytes of payload, and how they travel
  std::uint32_t fingerprint;  // hash of what the ranks' calls must agree on
  std::byte inline_data[kInlineBytes];

  std::uint32_t bytes() const { return size & kBytes; }
};
static_assert(sizeof(SlotHeader) == 64);
static_assert(sizeof(LentMessage) <= kInlineBytes);

struct alignas(kReaderLine) ReaderLine {
  std::atomic<std::uint64_t> released;
  std::atomic<std::uint64_t> announced;  // stamp of the operation for which `output` holds
  std::uint32_t fingerprint;             // of that operation
  MemoryAddress output;                  // where this reader's output buffer begins; not reachable: copy
};
static_assert(sizeof(ReaderLine) == kReaderLine);

struct RingGeometry {
  std::uint32_t readers = 1;
  std::uint32_t slots = 2;
  std::uint32_t slot_bytes = 0;  // payload, a multiple of 64

  constexpr std::size_t stride() const { return sizeof(SlotHeader) + slot_bytes; }
  constexpr std::size_t bytes() const { return readers * sizeof(ReaderLine) + slots * stride(); }
  friend constexpr bool operator==(const RingGeometry&, const RingGeometry&) = default;
};

// A view of ring memory; does not own it. Memory must be zero when the ring is made (stamps of no message).
struct Ring {
  std::byte* memory = nullptr;
  RingGeometry geometry;

  explicit operator bool() const { return memory != nullptr; }
  ReaderLine& line(std::uint32_t reader) const { return reinterpret_cast<ReaderLine*>(memory)[reader]; }
  std::atomic<std::uint64_t>& released(std::uint32_t reader) const { return line(reader).released; }
  SlotHeader& slot(std::uint64_t message) const {
    return *reinterpret_cast<SlotHeader*>(memory + geometry.readers * sizeof(ReaderLine) +
                                          message % geometry.slots * geometry.stride());
  }
  // The slot of the message after the one in `slot`, without a division.
  SlotHeader* after(SlotHeader* slot) const {
    std::byte* const next = reinterpret_cast<std::byte*>(slot) + geometry.stride();
    return next == memory + geometry.bytes() ? &this->slot(0) : reinterpret_cast<SlotHeader*>(next);
  }
  // Where `bytes` of payload of this slot lie.
  static std::byte* payload(SlotHeader& slot, std::size_t bytes) {
    return bytes <= kInlineBytes ? slot.inline_data : reinterpret_cast<std::byte*>(&slot) + sizeof(SlotHeader);
  }
};

// The messages [begin, end) that a reader takes in its operation at hand (before any: all there will ever be). A
// transport that carries releases over a wire tells the writer of those that it needs to send the rest of them, and of
// those of earlier operations, but not of others: the writer's process may have ended by then, and a byte that arrives
// at a socket without an owner makes the kernel throw away what the socket has still to deliver.
struct ReadWindow {
  std::uint64_t begin = 0;
  std::uint64_t end = ~std::uint64_t{0};
};

// Never zero, so that fresh memory holds no message.
constexpr std::uint64_t stamp_of(std::uint16_t epoch, std::uint64_t message) {
  return std::uint64_t{epoch} << 48 | ((message + 1) & ((std::uint64_t{1} << 48) - 1));
}

// The same value on every rank for the same port of the same schedule with the same geometry.
using PortId = std::uint64_t;

// A lasting port's ring is made when it is first used and stays as long as the communicator: a message may be in it
// while all ranks clear their slot memory. Such are the pairs (pairs.h); port_id() never sets the bit.
inline constexpr PortId kLastingPort = PortId{1} << 63;
constexpr bool lasts(PortId port) { return (port & kLastingPort) != 0; }

}  // namespace tutti::runtime

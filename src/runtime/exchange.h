// The executor of transfers: what exchange(), send() and receive() run, over the rings of pairs (pairs.h).
//
// Steps:    the transfers of a call with one peer in one direction are a lane, in call order; all lanes progress at
//           once. advance() moves of each what can be moved and returns; it never blocks.
// Messages: a transfer is a first message that carries count, type and number of the transfer and as much data as fits
//           in a slot, then slices of a slot each. With up to 40 bytes of data the first message is one cache line. A
//           lent transfer (direct.h), of 16 KiB and more, is one message that says where the data lies; the reader
//           copies it from there and then releases the slot.
//           first message:  count 8 | data, or MemoryAddress;  every message:  fingerprint = number 24 | type 8
// Bytes:    copied twice, or once when lent. 8 more than the data.
//
// The reader compares count and type with its own call before it takes anything, so both ends cut a transfer alike.
//
// Memory order, beside that of ring.h: a pair has one writer and one reader; threads of a rank that drive in turn hand
// the ends on by the drive (acquire and release of Runner::driving_). The writer's buffer was written before its call,
// hence before the stamp's release store, so a lent message is there for whoever has acquired the stamp. The reader
// reads it before its release store of `released`, which the writer acquires before its call returns: no write of the
// caller's can be seen by the reader. As to calls that fail, see DirectFlags.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/runtime/pairs.h"
#include "src/runtime/reducer.h"
#include "tutti/transfer.h"

namespace tutti::runtime {

class Exchange {
 public:
  struct Setting {
    int rank = 0;
    int ranks = 1;
    std::uint16_t epoch = 1;
    CopyFn copy = nullptr;
    DirectFlags* flags = nullptr;    // this rank's; null when it is alone
    std::size_t streaming_from = 0;  // bytes of a transfer that no cache keeps until they are read
  };
  // `pairs` outlives this.
  Exchange(const Setting& setting, Pairs& pairs);

  // Copies what this rank sends to itself, and makes its rings for the rest. `transfers` are checked, and live until
  // the execution is done, as do their buffers.
  void start(std::span<const Transfer> transfers);

  enum class State { blocked, moved, done, mismatch };
  State advance();

  // After mismatch: "rank 2 sends float x 100 to rank 0, which expects int32 x 100".
  const std::string& mismatch() const { return mismatch_; }
  // "rank 2 to send float x 100 (transfer 3 of 8)"; for the report on a stuck operation.
  std::string waiting_for() const;
  // Whether some transfer with that rank has yet to complete, here or on its way to another host.
  bool waits_for(int peer) const;
  // Whether peers may be reading our buffers.
  bool lends() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Lane {
    int peer = 0;
    Transfer::Direction direction = Transfer::Direction::send;
    std::uint32_t first = kNone;  // the transfer at hand; the others follow by next_
    std::uint32_t last = kNone;
    std::size_t moved = 0;   // bytes of it
    bool begun = false;      // its first message has been sent, or looked at
    bool lent = false;       // sending: some message is lent
    bool announced = false;  // receiving: the transport knows what it takes
    bool done = false;
    Pairs::Pair* pair = nullptr;
  };

  Lane& lane_of(const Transfer& transfer);
  void copy_to_self() const;
  State send(Lane& lane);
  bool slot_free(SendEnd& end) const;
  void send_message(Lane& lane);
  std::optional<MemoryAddress> lendable(const void* data, std::size_t bytes, Reach reach) const;
  State receive(Lane& lane);
  State take_message(Lane& lane);
  bool agrees(const Lane& lane, const SlotHeader& slot);
  State take_lent(Lane& lane, const SlotHeader& slot);
  void pass_transfer(Lane& lane);
  bool pending(const Lane& lane) const;
  std::uint64_t messages_of(const Lane& lane) const;
  void copy(void* to, const void* from, std::size_t bytes, std::size_t whole) const;
  static std::size_t bytes_of(const Transfer& t) { return t.count * size_of(t.type); }
  const Transfer& at_hand(const Lane& lane) const { return transfers_[lane.first]; }

  Setting setting_;
  Pairs& pairs_;
  std::span<const Transfer> transfers_;
  // Kept from call to call, so that one that is no larger allocates nothing.
  std::vector<std::uint32_t> next_;   // by transfer: the lane's next
  std::vector<Lane> lanes_;           // in the order of their first transfers
  std::vector<std::uint32_t> known_;  // by peer and direction: index into lanes_
  std::size_t left_ = 0;              // lanes
  std::string mismatch_;
};

}  // namespace tutti::runtime

// Pairs: the rings of point-to-point messages. A **pair** is (from, to), one writer and one reader. Its ring is made
// when it is first used and lasts as long as the communicator (kLastingPort): a message may be in it, sent and not
// asked for yet, while all ranks clear the slot memory of their plans.
//
// All pairs of a communicator have one geometry, which follows from the number of ranks and the buffer limit: together
// a rank's pairs take at most an eighth of the limit, and what plans may use is the rest (SlotBudget). That holds for
// the rings it writes and, over TCP, for those in which messages arrive.
//
// Thread safety: whoever drives the communicator's operations calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/runtime/connections.h"

namespace tutti::runtime {

// Nothing when an eighth of the limit is less than a page for each peer.
std::optional<RingGeometry> pair_geometry(int ranks, std::size_t limit);
// Bytes of the limit that are kept for a rank's pairs.
std::size_t pair_memory(int ranks, std::size_t limit);

class Pairs {
 public:
  // `connections` outlives this.
  Pairs(int rank, int ranks, std::size_t limit, Connections& connections);

  // Throws Error(invalid_argument) that names TUTTI_BUFFER_LIMIT when it has no room for pairs.
  void check() const;

  // What is between this rank and a peer. The pointers are null before the first use.
  struct Pair {
    SendEnd* send = nullptr;
    ReceiveEnd* receive = nullptr;
    std::uint64_t sent = 0;  // transfers, over all calls
    std::uint64_t received = 0;
  };
  Pair& with(int peer) {
    if (pairs_.empty()) pairs_.resize(static_cast<std::size_t>(ranks_));
    return pairs_[static_cast<std::size_t>(peer)];
  }
  // Makes `send`; looks for `receive`, which stays null until the peer has made the ring.
  void open_send(int peer);
  void open_receive(int peer);

 private:
  PortEnd port(int from, int to) const;

  int rank_;
  int ranks_;
  std::size_t limit_;
  std::optional<RingGeometry> geometry_;
  Connections& connections_;
  std::vector<Pair> pairs_;  // by rank
};

}  // namespace tutti::runtime

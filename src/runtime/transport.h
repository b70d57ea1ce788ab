// What the host executor needs of a transport. The concrete ones live in transport/, one folder each; src/tutti.cc is
// the only file that names them.
//
// Thread safety: the thread that owns the communicator's progress calls a transport; there is one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/runtime/ring.h"
#include "tutti/error.h"

namespace tutti::runtime {

using Blob = std::vector<std::byte>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;

  // What peers need to know to reach this rank; exchanged between all ranks at connect.
  virtual Blob address() const = 0;
  // All ranks' addresses, element i of rank i. Called once, before any of the calls below.
  virtual void set_peers(std::vector<Blob> addresses) = 0;
  // Tries the way to `peer` (with a self-test where that costs little); the reason when it does not work.
  virtual std::optional<std::string> unreachable(int peer) = 0;

  // Writer's side: carry the messages of `ring`, which is this rank's, to rank `peer`, who is its reader number
  // `reader`. `acknowledged` as in schedule::Port. Called once per (port, peer). The messages that a lasting port's
  // ring holds are carried although the peer has not looked for that ring yet.
  virtual void add_reader(PortId port, const Ring& ring, std::uint32_t reader, int peer, bool acknowledged) = 0;
  // Reader's side: the ring in which messages of rank `peer`'s port appear, and this rank's reader number in that ring;
  // nothing while the peer has not made the port yet (call again).
  struct Incoming {
    Ring ring;
    std::uint32_t reader = 0;
    ReadWindow* window = nullptr;  // where the reader says what it takes, if the transport cares; lives like the ring
  };
  virtual std::optional<Incoming> find_ring(PortId port, int peer, std::uint32_t reader, const RingGeometry& geometry,
                                            bool acknowledged) = 0;

  // How `peer` gets at this rank's memory, and this rank at the peer's.
  virtual Reach reach(int peer) const { return static_cast<void>(peer), Reach::none; }
  // Where `bytes` at `where` in the memory of `peer` lie for this rank; `where` is reachable. Nothing while the memory
  // is being mapped, which takes the peer's help the first time (call again); never blocks. Throws Error when the peer
  // has no such memory or it cannot be mapped.
  virtual std::optional<std::byte*> map(int peer, const MemoryAddress& where, std::size_t bytes) {
    return static_cast<void>(peer), static_cast<void>(where), static_cast<void>(bytes), std::nullopt;
  }
  // The flags of a peer whose memory this rank reaches; null for others.
  virtual DirectFlags* direct_flags(int peer) { return static_cast<void>(peer), nullptr; }

  // Sleeping (parking.h). What becomes readable when there may be news; -1: nothing does, so this rank cannot sleep.
  virtual int bell() const { return -1; }
  // progress() of a thread that is about to sleep: it misses nothing, and when it has moved nothing, whatever comes
  // later makes the bell readable.
  virtual bool settle() { return progress(); }
  // It waits for something for which no bell rings.
  virtual bool restless() const { return false; }
  // The peer's flag; null when it is never rung.
  virtual std::atomic<std::uint32_t>* parked(int peer) { return static_cast<void>(peer), nullptr; }
  // Never blocks; a peer that is gone is not told.
  virtual void ring(int peer) { static_cast<void>(peer); }
  // Whether ring() has been called since the last time this was.
  virtual bool take_rung() { return false; }

  // Moves what can be moved without blocking; true if anything moved. Throws Error when a peer sends garbage, and when
  // one is lost for whom a message waits.
  virtual bool progress() = 0;
  // A peer is lost from whom nothing more will come, and for whom nothing waits. What it had sent is in its rings, and
  // may be all that is needed: that is for the caller to judge.
  virtual std::optional<Error> loss() const { return std::nullopt; }
  // True when everything published has left this process, so that the operation may return.
  virtual bool drained() const { return true; }
  // Lets go of every ring but those of `kept` and of lasting ports. All ranks do so at the same operation, when no
  // message of another ring is in flight.
  virtual void forget_all_but(std::span<const PortId> kept) { static_cast<void>(kept); }
  // Waits until everything published has left this process, at most until the deadline.
  virtual void flush(std::chrono::steady_clock::time_point deadline) = 0;
};

}  // namespace tutti::runtime

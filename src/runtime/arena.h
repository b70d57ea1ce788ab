// The memory of one rank in one communicator that other ranks of its host can map: one memfd, with a directory of the
// rings in it. A memfd has no name (nothing is left behind after kill -9) and does not depend on the size of /dev/shm.
//
// Only the owner allocates; readers look rings up by PortId. Pages are reserved when a ring is made, so a shortage of
// memory is an Error there and never a SIGBUS later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/fd.h"
#include "src/runtime/ring.h"

namespace tutti::runtime {

// What lies at the start of the memory, for owner and readers alike.
struct ArenaDirectory {
  static constexpr std::uint64_t kMagic = 0x3161'6e65'7261'7474;
  static constexpr std::uint32_t kCapacity = 4096;  // rings

  // Valid while `port` says so. The owner stores it last (release), after offset, geometry and the ring's zeroed lines;
  // find() loads it first (acquire). `entries` alone would not do: a reader may still hold the larger number of before
  // forget_rings(), and meets an entry that is being made anew. No reader looks for the old id of such an entry: all
  // ranks have forgotten it, and ids differ by generation.
  struct Entry {
    std::atomic<PortId> port;
    std::uint64_t offset;  // from the start of the arena
    RingGeometry geometry;
  };

  DirectFlags direct;
  alignas(128) std::atomic<std::uint32_t> parked;  // the owner sleeps; parking.h
  alignas(128) std::uint64_t magic;
  std::uint64_t communicator;  // nonce; proves that this is the right memory
  std::int32_t rank;
  // Release stores by the owner, acquire loads by find(). Lasting rings have the last entries, the latest first.
  std::atomic<std::uint32_t> entries, lasting_entries;
  Entry entry[kCapacity];
};

// A mapping of another rank's arena, or of one's own.
class ArenaView {
 public:
  ArenaView() = default;
  explicit ArenaView(std::byte* base) : base_(base) {}

  std::atomic<std::uint32_t>& parked() const { return reinterpret_cast<ArenaDirectory*>(base_)->parked; }
  DirectFlags& direct() const { return reinterpret_cast<ArenaDirectory*>(base_)->direct; }
  const ArenaDirectory& directory() const { return *reinterpret_cast<const ArenaDirectory*>(base_); }
  // The ring of this port; nothing while its writer has not made it.
  std::optional<Ring> find(PortId port) const;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
};

class Arena {
 public:
  // `limit` bytes of ring memory at most. Throws Error(system_error) with the sizes when the system refuses.
  Arena(std::uint64_t communicator, int rank, std::size_t limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes and publishes a zeroed ring: from the bottom of the memory up, lasting ones from the top down. Throws Error
  // naming TUTTI_BUFFER_LIMIT when it does not fit.
  Ring make_ring(PortId port, const RingGeometry& geometry);

  // Forgets all rings but the lasting ones and the first `keep` of the others; their memory is used again. The caller
  // knows that no rank uses them.
  void forget_rings(std::uint32_t keep);
  std::uint32_t rings() const { return directory().entries.load(std::memory_order_relaxed); }

  const base::Fd& fd() const { return fd_; }
  std::size_t mapped_bytes() const { return bytes_; }  // address space
  ArenaView view() const { return ArenaView(base_); }

 private:
  ArenaDirectory& directory() const { return *reinterpret_cast<ArenaDirectory*>(base_); }
  void reserve(std::size_t end);
  void reserve(std::size_t begin, std::size_t end);

  base::Fd fd_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;           // end of the last ring
  std::size_t lasting_begin_ = 0;  // of the last lasting ring
  std::size_t reserved_ = 0;       // end of the pages that are reserved
};

// Bytes that a ring takes of an arena's limit.
constexpr std::size_t arena_bytes(const RingGeometry& geometry) {
  constexpr std::size_t alignment = 4096;
  return (geometry.bytes() + alignment - 1) / alignment * alignment;
}

}  // namespace tutti::runtime

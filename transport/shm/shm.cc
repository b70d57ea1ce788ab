#include "transport/shm/shm.h"

#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/runtime/memory.h"
#include "transport/shm/bell.h"
#include "transport/shm/fd_passing.h"

namespace tutti::transport {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::ArenaDirectory;
using runtime::ArenaView;
using runtime::Blob;

using Address = ShmAddress;

constexpr std::uint64_t kArenaNumber = 0;  // at the door; segments of tutti::alloc have their own numbers
constexpr std::size_t kMappings = 64;
constexpr std::chrono::seconds kFetchFor{10};
constexpr std::chrono::milliseconds kFetchAgain{1};

class Shm final : public runtime::Transport {
 public:
  explicit Shm(const ShmOptions& options)
      : options_(options),
        here_(ProcPlace::of(options.arena->fd())),
        door_(
            options.engine,
            [arena = options.arena](std::uint64_t number) {
              return number == kArenaNumber ? std::shared_ptr<const base::Fd>(arena, &arena->fd())
                                            : runtime::segment_fd(number);
            },
            options.secret) {}

  ~Shm() override {
    for (const Peer& peer : peers_) {
      if (peer.mapped) ::munmap(peer.view.base(), peer.address.bytes);
      for (const Mapping& mapping : peer.mappings) ::munmap(mapping.base, mapping.bytes);
    }
  }

  std::string_view name() const override { return "shm"; }

  Blob address() const override {
    Address mine;
    mine.process = base::process_nonce();
    mine.arena = reinterpret_cast<std::uint64_t>(&options_.arena);
    mine.bytes = options_.arena->mapped_bytes();
    mine.proc = here_;
    mine.door = door_.name();
    mine.bell = bell_.name();
    Blob blob(sizeof mine);
    std::memcpy(blob.data(), &mine, sizeof mine);
    return blob;
  }

  void set_peers(std::vector<Blob> addresses) override {
    peers_.resize(addresses.size());
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      if (addresses[rank].size() != sizeof(Address)) continue;
      Peer& peer = peers_[rank];
      std::memcpy(&peer.address, addresses[rank].data(), sizeof(Address));
      // A share in the arena, so that a rank that leaves early takes no memory from readers that are still busy. Its
      // owner cannot be gone yet: no rank gets past connect() before all have been here.
      if (peer.address.process == base::process_nonce())
        peer.arena = *reinterpret_cast<const std::shared_ptr<runtime::Arena>*>(peer.address.arena);
    }
  }

  std::optional<std::string> unreachable(int rank) override {
    try {
      view_of(rank);
      return std::nullopt;
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Readers map the ring where it lies: nothing to carry.
  void add_reader(runtime::PortId, const runtime::Ring&, std::uint32_t, int, bool) override {}

  std::optional<Incoming> find_ring(runtime::PortId port, int rank, std::uint32_t reader,
                                    const runtime::RingGeometry& geometry, bool) override {
    const auto ring = view_of(rank).find(port);
    if (!ring) return std::nullopt;
    if (ring->geometry != geometry)
      throw Error(ErrorCode::internal_error, "rank " + std::to_string(options_.rank) + " and rank " +
                                                 std::to_string(rank) + " disagree on the slots of a port");
    // Best effort: maps the pages now, so that the first message does not fault.
    const auto begin = reinterpret_cast<std::uintptr_t>(ring->memory) & ~std::uintptr_t{4095};
    ::madvise(reinterpret_cast<void*>(begin), arena_bytes(geometry), MADV_POPULATE_WRITE);
    return Incoming{*ring, reader};
  }

  runtime::Reach reach(int rank) const override {
    const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    return peer.arena != nullptr ? runtime::Reach::process : runtime::Reach::mapped;
  }

  runtime::DirectFlags* direct_flags(int rank) override { return &view_of(rank).direct(); }

  int bell() const override { return bell_.fd(); }
  // Segments are fetched over sockets of their own.
  bool restless() const override {
    return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.fetch.has_value(); });
  }
  std::atomic<std::uint32_t>* parked(int rank) override { return &view_of(rank).parked(); }
  void ring(int rank) override {
    bell_.ring(peers_.at(static_cast<std::size_t>(rank)).address.bell);
    rung_ = true;
  }
  bool take_rung() override { return std::exchange(rung_, false); }

  std::optional<std::byte*> map(int rank, const runtime::MemoryAddress& where, std::size_t bytes) override {
    Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    if (peer.arena != nullptr) return const_cast<std::byte*>(where.local);
    const Mapping* const mapping = mapping_of(rank, peer, where.segment);
    if (mapping == nullptr) return std::nullopt;
    if (where.offset > mapping->bytes || bytes > mapping->bytes - where.offset)
      throw Error(ErrorCode::internal_error, "rank " + std::to_string(rank) + " names " + std::to_string(bytes) +
                                                 " bytes that are not in its memory");
    return mapping->base + where.offset;
  }

  bool progress() override { return false; }
  void flush(std::chrono::steady_clock::time_point) override {}  // mapped memory outlives this process

 private:
  // What tutti::alloc gave in another process, mapped here. The peer may free it at any time, which leaves zeroes.
  struct Mapping {
    std::uint64_t segment = 0;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };

  // The way to the next mapping.
  struct Fetch {
    FdVisit visit;
    Clock::time_point until;
    Clock::time_point not_before{};
  };

  struct Peer {
    Address address;
    std::shared_ptr<runtime::Arena> arena;  // of a rank of this process
    ArenaView view;
    bool mapped = false;            // by us, to be unmapped
    std::vector<Mapping> mappings;  // at most kMappings, the last used first
    std::optional<Fetch> fetch;     // of the next one
  };

  // The mapping of a segment, made at first use; null while its descriptor is on its way.
  const Mapping* mapping_of(int rank, Peer& peer, std::uint64_t segment) {
    auto& all = peer.mappings;
    const auto known = std::find_if(all.begin(), all.end(), [&](const Mapping& m) { return m.segment == segment; });
    if (known != all.end()) {
      std::rotate(all.begin(), known, known + 1);
      return &all.front();
    }
    const base::Fd fd = fetch_segment(rank, peer, segment);
    if (!fd) return nullptr;
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) base::throw_errno("cannot size the memory of rank " + std::to_string(rank));
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) base::throw_errno("cannot map the memory of rank " + std::to_string(rank));
    ::madvise(memory, bytes, MADV_POPULATE_WRITE);  // best effort: no page faults while it is used
    if (all.size() == kMappings) {                  // most likely freed long ago
      ::munmap(all.back().base, all.back().bytes);
      all.pop_back();
    }
    all.insert(all.begin(), {segment, static_cast<std::byte*>(memory), bytes});
    return &all.front();
  }

  // The segment's descriptor; empty while it is on its way. A peer that has died or given up, and freed the memory,
  // hands out nothing: the control plane tells why, so a refusal is final only when the time is over.
  base::Fd fetch_segment(int rank, Peer& peer, std::uint64_t segment) {
    const Clock::time_point now = Clock::now();
    if (!peer.fetch)
      peer.fetch.emplace(Fetch{FdVisit(peer.address.door, options_.secret, segment, rank), now + kFetchFor});
    Fetch& fetch = *peer.fetch;
    if (fetch.visit.number() != segment || now < fetch.not_before) return {};
    base::Fd fd;
    try {
      fd = fetch.visit.advance();
    } catch (const Error&) {
      if (now >= fetch.until) throw;
      fetch.visit = FdVisit(peer.address.door, options_.secret, segment, rank);
      fetch.not_before = now + kFetchAgain;
    }
    if (fd) peer.fetch.reset();
    return fd;
  }

  // The peer's arena, mapped at first use.
  ArenaView& view_of(int rank) {
    Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    if (peer.view.base() == nullptr) peer.view = attach(rank, peer);
    return peer.view;
  }

  ArenaView attach(int rank, Peer& peer) {
    if (peer.address.bytes == 0)
      throw Error(ErrorCode::system_error, "rank " + std::to_string(rank) + " offers no shared memory");
    if (peer.arena != nullptr) {
      if (!is_arena_of(peer.arena->view(), rank)) fail_wrong(rank);
      return peer.arena->view();
    }
    // By /proc there may be another process of the same number.
    if (const auto view = mapped(open_memory(peer.address.proc, here_, peer.address.bytes), rank, peer)) return *view;
    if (const auto view = mapped(fetch_fd(peer.address.door, options_.secret, kArenaNumber, rank), rank, peer))
      return *view;
    fail_wrong(rank);
  }

  // The arena behind a descriptor; nothing when it is not that of the rank.
  std::optional<ArenaView> mapped(const base::Fd& fd, int rank, Peer& peer) const {
    if (!fd) return std::nullopt;
    void* memory = ::mmap(nullptr, peer.address.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) base::throw_errno("cannot map the shared memory of rank " + std::to_string(rank));
    const ArenaView view(static_cast<std::byte*>(memory));
    peer.mapped = is_arena_of(view, rank);
    if (peer.mapped) return view;
    ::munmap(memory, peer.address.bytes);
    return std::nullopt;
  }

  bool is_arena_of(const ArenaView& view, int rank) const {
    const ArenaDirectory& list = view.directory();
    return list.magic == ArenaDirectory::kMagic && list.communicator == options_.communicator && list.rank == rank;
  }

  [[noreturn]] static void fail_wrong(int rank) {
    throw Error(ErrorCode::internal_error, "the shared memory of rank " + std::to_string(rank) +
                                               " is not what it says: it belongs to another communicator or rank");
  }

  ShmOptions options_;
  const ProcPlace here_;  // where our arena lies open
  FdDoor door_;
  Bell bell_;
  std::vector<Peer> peers_;
  bool rung_ = false;
};

}  // namespace

std::unique_ptr<runtime::Transport> make_shm_transport(const ShmOptions& options) {
  if (sodium_init() < 0)
    throw Error(ErrorCode::system_error, "libsodium cannot be initialised: no source of randomness");
  return std::make_unique<Shm>(options);
}

}  // namespace tutti::transport

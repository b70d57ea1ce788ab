#include "src/runtime/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "src/base/env.h"
#include "src/base/error.h"

namespace tutti::runtime {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
constexpr std::size_t kDirectoryBytes = round_up(sizeof(ArenaDirectory), kPage);

}  // namespace

std::optional<Ring> ArenaView::find(PortId port) const {
  const ArenaDirectory& list = directory();
  const bool lasting = lasts(port);
  const std::uint32_t count = (lasting ? list.lasting_entries : list.entries).load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    const ArenaDirectory::Entry& entry = list.entry[lasting ? ArenaDirectory::kCapacity - 1 - i : i];
    if (entry.port.load(std::memory_order_acquire) == port) return Ring{base_ + entry.offset, entry.geometry};
  }
  return std::nullopt;
}

Arena::Arena(std::uint64_t communicator, int rank, std::size_t limit)
    : bytes_(kDirectoryBytes + round_up(limit, kPage)), used_(kDirectoryBytes), lasting_begin_(bytes_) {
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < bytes_)  // else SIGXFSZ would end the process
    throw Error(ErrorCode::system_error, "rank " + std::to_string(rank) + " needs " + base::format_bytes(bytes_) +
                                             " of shared memory, but the limit of file sizes (ulimit -f) is " +
                                             base::format_bytes(file_size.rlim_cur) +
                                             "; raise it or lower TUTTI_BUFFER_LIMIT");
  fd_ = base::Fd(::memfd_create("tutti", MFD_CLOEXEC));
  if (!fd_) base::throw_errno("rank " + std::to_string(rank) + " cannot create its shared memory (memfd_create)");
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0)
    base::throw_errno("rank " + std::to_string(rank) + " cannot size its shared memory to " +
                      base::format_bytes(bytes_) + "; lower TUTTI_BUFFER_LIMIT");
  void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED)
    base::throw_errno("rank " + std::to_string(rank) + " cannot map " + base::format_bytes(bytes_) +
                      " of shared memory; lower TUTTI_BUFFER_LIMIT or raise ulimit -v");
  base_ = static_cast<std::byte*>(base);
  try {
    reserve(kDirectoryBytes);
  } catch (...) {
    ::munmap(base_, bytes_);
    throw;
  }
  ArenaDirectory* list = new (base_) ArenaDirectory;
  list->communicator = communicator;
  list->rank = rank;
  list->entries.store(0, std::memory_order_relaxed);
  list->lasting_entries.store(0, std::memory_order_relaxed);
  list->magic = ArenaDirectory::kMagic;
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

void Arena::reserve(std::size_t end) {
  if (end <= reserved_) return;
  reserve(reserved_, end);
  reserved_ = end;
}

void Arena::reserve(std::size_t begin, std::size_t end) {
  const auto from = static_cast<off_t>(begin), length = static_cast<off_t>(end - begin);
  int result = 0;
  do result = ::fallocate(fd_.get(), 0, from, length);
  while (result != 0 && errno == EINTR);
  if (result != 0)
    base::throw_errno("cannot reserve " + base::format_bytes(end - begin) + " of shared memory at " +
                      base::format_bytes(begin) + "; free memory or lower TUTTI_BUFFER_LIMIT");
  // Best effort: maps the pages now, so that the first message does not fault.
  ::madvise(base_ + from, static_cast<std::size_t>(length), MADV_POPULATE_WRITE);
}

Ring Arena::make_ring(PortId port, const RingGeometry& geometry) {
  ArenaDirectory& list = directory();
  const bool lasting = lasts(port);
  const std::size_t bytes = arena_bytes(geometry);
  std::atomic<std::uint32_t>& count = lasting ? list.lasting_entries : list.entries;
  const std::uint32_t number = count.load(std::memory_order_relaxed);
  const std::uint32_t rings = list.entries.load(std::memory_order_relaxed) +  //
                              list.lasting_entries.load(std::memory_order_relaxed);
  if (rings == ArenaDirectory::kCapacity)
    throw Error(ErrorCode::invalid_usage, "rank " + std::to_string(list.rank) + " writes " + std::to_string(rings) +
                                              " rings already, the most that there may be");
  if (bytes > lasting_begin_ - used_)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(list.rank) + " needs " +
                                                 base::format_bytes(bytes) + " more of slot memory, but uses " +
                                                 base::format_bytes(used_ + bytes_ - lasting_begin_) + " of " +
                                                 base::format_bytes(bytes_) + " already; raise TUTTI_BUFFER_LIMIT");
  const std::size_t offset = lasting ? lasting_begin_ - bytes : used_;
  if (lasting)
    reserve(offset, lasting_begin_);
  else
    reserve(offset + bytes);
  std::byte* memory = base_ + offset;
  std::memset(memory, 0, geometry.readers * sizeof(ReaderLine));
  const Ring ring{memory, geometry};
  for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) ring.slot(slot).stamp.store(0, std::memory_order_relaxed);
  ArenaDirectory::Entry& entry = list.entry[lasting ? ArenaDirectory::kCapacity - 1 - number : number];
  entry.offset = offset;
  entry.geometry = geometry;
  entry.port.store(port, std::memory_order_release);
  if (lasting)
    lasting_begin_ = offset;
  else
    used_ = offset + bytes;
  count.store(number + 1, std::memory_order_release);
  return ring;
}

void Arena::forget_rings(std::uint32_t keep) {
  ArenaDirectory& list = directory();
  const std::uint32_t entries = list.entries.load(std::memory_order_relaxed);
  if (keep >= entries) return;
  used_ = list.entry[keep].offset;
  for (std::uint32_t i = keep; i < entries; ++i) list.entry[i].port.store(0, std::memory_order_relaxed);
  list.entries.store(keep, std::memory_order_release);
}

}  // namespace tutti::runtime

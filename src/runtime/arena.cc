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
  const std::uint32_t entries = list.entries.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < entries; ++i)
    if (list.entry[i].port.load(std::memory_order_acquire) == port)
      return Ring{base_ + list.entry[i].offset, list.entry[i].geometry};
  return std::nullopt;
}

Arena::Arena(std::uint64_t communicator, int rank, std::size_t limit)
    : bytes_(kDirectoryBytes + round_up(limit, kPage)), used_(kDirectoryBytes) {
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
  list->magic = ArenaDirectory::kMagic;
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

void Arena::reserve(std::size_t end) {
  if (end <= reserved_) return;
  const auto from = static_cast<off_t>(reserved_), length = static_cast<off_t>(end - reserved_);
  int result = 0;
  do result = ::fallocate(fd_.get(), 0, from, length);
  while (result != 0 && errno == EINTR);
  if (result != 0)
    base::throw_errno("cannot reserve " + base::format_bytes(end - reserved_) + " of shared memory beyond " +
                      base::format_bytes(reserved_) + "; free memory or lower TUTTI_BUFFER_LIMIT");
  // Best effort: maps the pages now, so that the first message does not fault.
  ::madvise(base_ + from, static_cast<std::size_t>(length), MADV_POPULATE_WRITE);
  reserved_ = end;
}

Ring Arena::make_ring(PortId port, const RingGeometry& geometry) {
  ArenaDirectory& list = directory();
  const std::uint32_t index = list.entries.load(std::memory_order_relaxed);
  const std::size_t end = used_ + arena_bytes(geometry);
  if (end > bytes_ || index == ArenaDirectory::kCapacity)
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(list.rank) + " needs " + base::format_bytes(arena_bytes(geometry)) +
                    " more of slot memory, but uses " + base::format_bytes(used_) + " of " +
                    base::format_bytes(bytes_) + " already; raise TUTTI_BUFFER_LIMIT");
  reserve(end);
  std::byte* memory = base_ + used_;
  std::memset(memory, 0, geometry.readers * sizeof(ReaderLine));
  const Ring ring{memory, geometry};
  for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) ring.slot(slot).stamp.store(0, std::memory_order_relaxed);
  list.entry[index].offset = used_;
  list.entry[index].geometry = geometry;
  list.entry[index].port.store(port, std::memory_order_release);
  used_ = end;
  list.entries.store(index + 1, std::memory_order_release);
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

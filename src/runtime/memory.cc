#include "src/runtime/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/base/fork_guard.h"
#include "tutti/memory.h"

namespace tutti {
namespace runtime {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Entry {
  std::uint64_t segment = 0;
  std::size_t bytes = 0;
  std::shared_ptr<const base::Fd> fd;
};

struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Entry> by_address;
  std::uint64_t last = 0;
};

// Never destroyed, because memory may be freed after static objects. A child of fork() does not find it locked by a
// thread that it does not have.
Registry& registry() {
  static Registry* const instance = [] {
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] { registry().mutex.unlock(); });
    return new Registry;
  }();
  return *instance;
}

}  // namespace

std::optional<SegmentPlace> find_segment(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto after = all.by_address.upper_bound(begin);
  if (after == all.by_address.begin()) return std::nullopt;
  const auto& [base, entry] = *--after;
  const auto offset = static_cast<std::size_t>(begin - base);
  if (offset > entry.bytes || bytes > entry.bytes - offset) return std::nullopt;
  return SegmentPlace{entry.segment, offset};
}

std::shared_ptr<const base::Fd> segment_fd(std::uint64_t segment) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& [base, entry] : all.by_address)
    if (entry.segment == segment) return entry.fd;
  return nullptr;
}

}  // namespace runtime

using runtime::kHugePage;
using runtime::kPage;
using runtime::registry;

struct Memory::Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const base::Fd> fd;
  base::ForkGuard fork_guard;

  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() {
    if (base == nullptr) return;
    {
      const std::lock_guard lock(registry().mutex);
      registry().by_address.erase(base);
    }
    // Peers may keep their mappings for a while; the pages go now. In a child of fork() they are the parent's.
    if (!fork_guard.forked())
      ::fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
    ::munmap(base, bytes);
  }
};

Memory::Memory(Memory&& other) noexcept
    : segment_(std::move(other.segment_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  segment_ = std::move(other.segment_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Memory::~Memory() = default;

Memory alloc(std::size_t bytes, MemoryKind kind) {
  if (kind != MemoryKind::host)
    throw Error(ErrorCode::invalid_argument,
                "the kind of memory is " + std::to_string(static_cast<int>(kind)) + "; valid: MemoryKind::host");
  Memory memory;
  if (bytes == 0) return memory;
  const std::string what = "cannot allocate " + base::format_bytes(bytes) + " of memory that other ranks can reach";
  constexpr std::size_t kMost = std::size_t{1} << 46;
  if (bytes > kMost) throw Error(ErrorCode::invalid_argument, what + "; at most 64 TiB");
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < bytes)  // else SIGXFSZ would end the process
    throw Error(ErrorCode::system_error,
                what + ": the limit of file sizes (ulimit -f) is " + base::format_bytes(file_size.rlim_cur));
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t mapped = (bytes + unit - 1) / unit * unit;
  base::Fd fd(::memfd_create("tutti", MFD_CLOEXEC));
  if (!fd) base::throw_errno(what + " (memfd_create)");
  int result = ::ftruncate(fd.get(), static_cast<off_t>(mapped));
  if (result != 0) base::throw_errno(what + " (ftruncate)");
  // Reserved now: a shortage of memory is an Error here and never a SIGBUS later.
  do result = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(mapped));
  while (result != 0 && errno == EINTR);
  if (result != 0) base::throw_errno(what + " (fallocate)");
  void* const base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) base::throw_errno(what + " (mmap)");
  auto segment = std::make_shared<Memory::Segment>();
  segment->fd = std::make_shared<const base::Fd>(std::move(fd));
  segment->base = static_cast<std::byte*>(base);
  segment->bytes = mapped;
  ::madvise(base, mapped, MADV_POPULATE_WRITE);  // best effort: no page faults in the first call
  {
    runtime::Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.by_address[segment->base] = {++all.last, mapped, segment->fd};
  }
  memory.data_ = segment->base;
  memory.size_ = bytes;
  memory.segment_ = std::move(segment);
  return memory;
}

}  // namespace tutti

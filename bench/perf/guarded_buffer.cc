#include "bench/perf/guarded_buffer.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "src/base/env.h"
#include "src/base/error.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// Different at neighbouring bytes, so that a shifted copy of the zone is seen too.
std::byte guard_byte(std::size_t i) { return static_cast<std::byte>(0xa5 ^ (i * 37 & 0xff)); }

void write_zone(std::byte* zone) {
  for (std::size_t i = 0; i < GuardedBuffer::kGuard; ++i) zone[i] = guard_byte(i);
}

std::size_t changed(const std::byte* zone) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < GuardedBuffer::kGuard; ++i) count += zone[i] != guard_byte(i);
  return count;
}

std::byte* ordinary_pages(std::size_t bytes) {
  void* mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    base::throw_errno("cannot allocate a buffer of " + base::format_bytes(bytes) + " (give a smaller -e)");
  return static_cast<std::byte*>(mapping);
}

// The number after `key` in a file of "key: number kB" lines, in bytes.
std::size_t kilobytes_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    std::istringstream rest(line.substr(key.size()));
    std::size_t kilobytes = 0;
    if (rest >> kilobytes) return kilobytes * 1024;
  }
  return kUnlimited;
}

std::size_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  return file >> value ? value : kUnlimited;  // "max" reads as no number
}

// Room left in this process's memory control group (version 2) and in those above it.
std::size_t control_group_room() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  std::size_t room = kUnlimited;
  while (!path.empty()) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const std::size_t limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
    if (limit != kUnlimited && used != kUnlimited) room = std::min(room, limit > used ? limit - used : 0);
    path.erase(path.rfind('/'));
  }
  return room;
}

}  // namespace

const char* name_of(BufferMemory memory) { return memory == BufferMemory::ordinary ? "ordinary" : "tutti"; }

GuardedBuffer::GuardedBuffer(std::size_t capacity, std::size_t misalign, BufferMemory memory)
    : mapped_(footprint(capacity, misalign)) {
  if (memory == BufferMemory::tutti) {
    shared_ = tutti::alloc(mapped_);
    mapping_ = shared_.data();
  } else {
    mapping_ = ordinary_pages(mapped_);
  }
  data_ = mapping_ + kGuard + misalign;
  for (std::size_t i = 0; i < mapped_; i += kPage) mapping_[i] = std::byte{0};
}

GuardedBuffer::~GuardedBuffer() {
  if (shared_.data() == nullptr) ::munmap(mapping_, mapped_);
}

void GuardedBuffer::arm(std::byte* begin, std::size_t bytes) {
  armed_begin_ = begin, armed_end_ = begin + bytes;
  write_zone(armed_begin_ - kGuard);
  write_zone(armed_end_);
}

std::size_t GuardedBuffer::violations() const { return changed(armed_begin_ - kGuard) + changed(armed_end_); }

std::size_t GuardedBuffer::footprint(std::size_t capacity, std::size_t misalign) {
  return (capacity + misalign + kPage - 1) / kPage * kPage + 2 * kGuard;
}

std::size_t available_memory() {
  std::size_t room = std::min(kilobytes_of("/proc/meminfo", "MemAvailable:"), control_group_room());
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const std::size_t used = kilobytes_of("/proc/self/status", "VmSize:");
    if (used != kUnlimited) room = std::min(room, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
  }
  return room;
}

}  // namespace tutti::perf

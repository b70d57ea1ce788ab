// A page-aligned buffer between two guard zones. Whatever a collective writes outside its data is found and counted.
#pragma once

#include <cstddef>

namespace tutti::perf {

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuard = 4096;  // bytes watched before and after the data

  // Room for `capacity` bytes that start `misalign` bytes behind a page border; every page is touched.
  // Throws Error(system_error) when the system gives no memory.
  GuardedBuffer(std::size_t capacity, std::size_t misalign);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() { return data_; }
  // Writes both guard zones around the `bytes` bytes at `begin`, which lie in this buffer.
  void arm(std::byte* begin, std::size_t bytes);
  // Guard bytes that have changed since arm().
  std::size_t violations() const;

  // Memory of one buffer with its guards.
  static std::size_t footprint(std::size_t capacity, std::size_t misalign);

 private:
  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::byte* armed_begin_ = nullptr;
  std::byte* armed_end_ = nullptr;
};

// Bytes this process may still use: what the system has available, less where a control group or ulimit -v says so.
std::size_t available_memory();

}  // namespace tutti::perf

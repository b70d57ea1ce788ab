// A page-aligned buffer between two guard zones. Whatever a collective writes outside its data is found and counted.
#pragma once

#include <cstddef>

#include "tutti/memory.h"

namespace tutti::perf {

// Where a buffer's memory comes from: the process's own pages, or tutti::alloc, which the ranks of a host can reach.
enum class BufferMemory { ordinary, tutti };
const char* name_of(BufferMemory memory);

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuard = 4096;  // bytes watched before and after the data

  // Room for `capacity` bytes that start `misalign` bytes behind a page border; every page is touched.
  // Throws Error(system_error) when the system gives no memory. The guards of both kinds are part of the buffer's
  // memory: what a peer writes there, through its own mapping, is found as well.
  GuardedBuffer(std::size_t capacity, std::size_t misalign, BufferMemory memory = BufferMemory::ordinary);
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
  std::size_t mapped_ = 0;
  tutti::Memory shared_;  // unless it is ordinary
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;
  std::byte* armed_begin_ = nullptr;
  std::byte* armed_end_ = nullptr;
};

// Bytes this process may still use: what the system has available, less where a control group or ulimit -v says so.
std::size_t available_memory();

}  // namespace tutti::perf

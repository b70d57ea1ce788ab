// Memory that the other ranks of a host can reach, so that large messages need no copy through slots: a receiver reads
// its sender's buffer, or a sender writes its receiver's. Collectives take any memory; with this memory they are up to
// several times as fast from about 64 KiB on. (Ranks that are threads of one process reach each other's memory anyway.)
//
//   tutti::Memory gradients = tutti::alloc(n * sizeof(float));
//   world.all_reduce(gradients.as<float>());
//
// Thread safety: alloc() from any thread; a Memory is used by one thread at a time. Needs no communicator.
// fork(): a child shares the memory with its parent, writes included.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace tutti {

enum class MemoryKind { host };  // which memory it is; alloc() never changes its mind by itself

class Memory {
 public:
  Memory() = default;  // none
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();  // frees it; no call may be using it any more

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }  // bytes
  MemoryKind kind() const { return MemoryKind::host; }
  // As elements of T; what is left at the end is left out.
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  friend Memory alloc(std::size_t bytes, MemoryKind kind);
  struct Segment;
  std::shared_ptr<Segment> segment_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// `bytes` of zeroes that start at a page, reserved at once. Zero bytes give a Memory without data. Throws
// Error(system_error) with the reason when the system refuses.
Memory alloc(std::size_t bytes, MemoryKind kind = MemoryKind::host);

}  // namespace tutti

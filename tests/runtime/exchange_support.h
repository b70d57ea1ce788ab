// Messages whose every byte says where it comes from, and what is expected of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::test {

// The byte at `index` of the `number`-th message from `from` to `to`.
inline std::uint8_t byte_of(int from, int to, std::size_t number, std::size_t index) {
  std::uint64_t h = index * 0x9E3779B97F4A7C15u + number * 0xBF58476D1CE4E5B9u;
  h ^= static_cast<std::uint64_t>(from * 1000 + to + 1) * 0x94D049BB133111EBu;
  return static_cast<std::uint8_t>(h >> 56 ^ h >> 24);
}

// A buffer that begins `misaligned` bytes behind an aligned address, with guards on both sides.
class Guarded {
 public:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::uint8_t kUntouched = 0xA5;
  explicit Guarded(std::size_t bytes, std::size_t misaligned = 0)
      : begin_(kGuard + misaligned), bytes_(bytes), memory_(begin_ + bytes + kGuard, kUntouched) {}

  std::uint8_t* data() { return memory_.data() + begin_; }
  void fill(int from, int to, std::size_t number) {
    for (std::size_t i = 0; i < bytes_; ++i) data()[i] = byte_of(from, to, number, i);
  }
  void check(int from, int to, std::size_t number) const {
    const std::string what = "message " + std::to_string(number) + " of " + std::to_string(bytes_) +
                             " bytes from rank " + std::to_string(from) + " to rank " + std::to_string(to);
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      const std::uint8_t expected = inside ? byte_of(from, to, number, i - begin_) : kUntouched;
      if (memory_[i] != expected)
        throw std::runtime_error(what + " has a wrong byte at " + std::to_string(static_cast<long>(i - begin_)));
    }
  }

 private:
  std::size_t begin_, bytes_;
  std::vector<std::uint8_t> memory_;
};

// `sizes[n]` bytes in the n-th message of every pair, all of them at once. `receives_first`: in the list.
inline void exchange_all_pairs(Communicator& comm, const std::vector<std::size_t>& sizes, bool receives_first = false,
                               std::size_t misaligned = 0) {
  std::vector<Guarded> out, in;
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < comm.size(); ++peer)
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      out.emplace_back(sizes[n], misaligned).fill(comm.rank(), peer, n);
      in.emplace_back(sizes[n], 2 * misaligned);
    }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int peer = static_cast<int>(i / sizes.size());
    const std::size_t count = sizes[i % sizes.size()];
    sends.push_back({Transfer::Direction::send, out[i].data(), count, DataType::uint8, peer});
    receives.push_back({Transfer::Direction::receive, in[i].data(), count, DataType::uint8, peer});
  }
  std::vector<Transfer> all = receives_first ? receives : sends;
  const std::vector<Transfer>& rest = receives_first ? sends : receives;
  all.insert(all.end(), rest.begin(), rest.end());
  comm.exchange(all);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i].check(static_cast<int>(i / sizes.size()), comm.rank(), i % sizes.size());
}

}  // namespace tutti::test

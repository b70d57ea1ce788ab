// What the tests of the TCP transport share: groups of transports in one process, and the executor's part of the ring
// protocol, written down independently of the library.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/base/socket.h"
#include "src/runtime/transport.h"
#include "transport/tcp/endpoints.h"
#include "transport/tcp/tcp.h"
#include "tutti/error.h"

namespace tcp_test {

using tutti::runtime::Ring;
using tutti::runtime::RingGeometry;
using tutti::runtime::SlotHeader;
using tutti::runtime::Transport;
using tutti::transport::TcpOptions;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint16_t kEpoch = 3;

inline TcpOptions options(int rank, int size) {
  TcpOptions o;
  o.rank = rank;
  o.size = size;
  o.communicator = 0x1234'5678'9abc'def0;
  o.secret.fill(std::byte{42});
  o.epoch = kEpoch;
  o.connect_timeout = milliseconds(20'000);
  return o;
}

using Group = std::vector<std::unique_ptr<Transport>>;

inline void introduce(Group& group) {
  std::vector<tutti::runtime::Blob> addresses;
  for (const auto& transport : group) addresses.push_back(transport->address());
  for (const auto& transport : group) transport->set_peers(addresses);
}

inline Group make_group(int size) {
  Group group;
  for (int rank = 0; rank < size; ++rank) group.push_back(make_tcp_transport(options(rank, size)));
  introduce(group);
  return group;
}

// Turns `step` until it says true; an exception after 30 s.
inline void until(const std::function<bool()>& step) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  while (!step())
    if (Clock::now() > deadline) throw std::runtime_error("the test waited for 30 s");
}

inline void progress(Group& group) {
  for (const auto& transport : group) transport->progress();
}

// The byte that is expected at `at` in message n of the stream `seed`, and how long that message is.
inline std::byte expected_byte(std::uint64_t seed, std::uint64_t n, std::size_t at) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + n * 0xbf58476d1ce4e5b9 + (at / 8) * 0x94d049bb133111eb;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 32;
  return static_cast<std::byte>(x >> (at % 8 * 8));
}
inline std::uint32_t expected_bytes(std::uint64_t seed, std::uint64_t n, std::uint32_t slot_bytes) {
  const std::uint32_t sizes[] = {0, 1, 48, 49, slot_bytes, 64, 47, slot_bytes > 3 ? slot_bytes - 3 : 0};
  const std::uint64_t pick = (seed + n) % 9;
  const std::uint32_t most = slot_bytes > 48 ? slot_bytes : 48;
  const std::uint32_t bytes = pick < 8 ? sizes[pick] : static_cast<std::uint32_t>((n * 7919 + seed) % (most + 1));
  return bytes < most ? bytes : most;
}
inline std::uint32_t expected_fingerprint(std::uint64_t seed, std::uint64_t n) {
  return static_cast<std::uint32_t>(seed * 77 + n * 13);
}

class Writer {
 public:
  Writer(std::uint64_t seed, const RingGeometry& geometry, bool acknowledged)
      : seed_(seed),
        acknowledged_(acknowledged),
        memory_(static_cast<std::byte*>(std::aligned_alloc(128, (geometry.bytes() + 127) / 128 * 128)), std::free),
        ring_{memory_.get(), geometry} {
    std::memset(memory_.get(), 0, geometry.bytes());
  }
  const Ring& ring() const { return ring_; }
  std::uint64_t written() const { return next_; }

  // Publishes the next message if its slot is free.
  bool write() {
    const RingGeometry& geometry = ring_.geometry;
    if (acknowledged_ && next_ >= geometry.slots)
      for (std::uint32_t reader = 0; reader < geometry.readers; ++reader)
        if (ring_.released(reader).load(std::memory_order_acquire) < next_ - geometry.slots + 1) return false;
    SlotHeader& slot = ring_.slot(next_);
    const std::uint32_t bytes = expected_bytes(seed_, next_, geometry.slot_bytes);
    std::byte* payload = Ring::payload(slot, bytes);
    for (std::uint32_t i = 0; i < bytes; ++i) payload[i] = expected_byte(seed_, next_, i);
    slot.size = bytes;
    slot.fingerprint = expected_fingerprint(seed_, next_);
    slot.stamp.store(std::uint64_t{kEpoch} << 48 | (next_ + 1), std::memory_order_release);
    ++next_;
    return true;
  }

 private:
  std::uint64_t seed_;
  bool acknowledged_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  Ring ring_;
  std::uint64_t next_ = 0;
};

class Reader {
 public:
  Reader(std::uint64_t seed, Transport::Incoming incoming, bool acknowledged)
      : seed_(seed), incoming_(incoming), acknowledged_(acknowledged) {}
  std::uint64_t taken() const { return next_; }

  // Takes the next message if it is there and checks every byte of it.
  bool read(bool release = true) {
    SlotHeader& slot = incoming_.ring.slot(next_);
    if (slot.stamp.load(std::memory_order_acquire) != (std::uint64_t{kEpoch} << 48 | (next_ + 1))) return false;
    const std::uint32_t bytes = expected_bytes(seed_, next_, incoming_.ring.geometry.slot_bytes);
    if (slot.bytes() != bytes) wrong("length " + std::to_string(slot.bytes()) + " instead of " + std::to_string(bytes));
    if (slot.fingerprint != expected_fingerprint(seed_, next_)) wrong("fingerprint");
    const std::byte* payload = Ring::payload(slot, bytes);
    for (std::uint32_t i = 0; i < bytes; ++i)
      if (payload[i] != expected_byte(seed_, next_, i)) wrong("byte " + std::to_string(i));
    ++next_;
    if (release) release_all();
    return true;
  }
  void release_all() {
    if (acknowledged_) incoming_.ring.released(incoming_.reader).store(next_, std::memory_order_release);
  }
  bool arrived(std::uint64_t n) const {
    return incoming_.ring.slot(n).stamp.load(std::memory_order_acquire) == (std::uint64_t{kEpoch} << 48 | (n + 1));
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    throw std::runtime_error("stream " + std::to_string(seed_) + " message " + std::to_string(next_) + ": wrong " +
                             what);
  }
  std::uint64_t seed_;
  Transport::Incoming incoming_;
  bool acknowledged_;
  std::uint64_t next_ = 0;
};

// One writer and its readers on their ranks, with the port made on all of them.
struct Stream {
  Stream(Group& group, std::uint64_t port, int from, const std::vector<int>& to, RingGeometry geometry,
         bool acknowledged = true)
      : writer(port, geometry, acknowledged) {
    for (std::uint32_t i = 0; i < to.size(); ++i) {
      group[static_cast<std::size_t>(from)]->add_reader(port, writer.ring(), i, to[i], acknowledged);
      readers.emplace_back(port,
                           *group[static_cast<std::size_t>(to[i])]->find_ring(port, from, i, geometry, acknowledged),
                           acknowledged);
    }
  }
  Writer writer;
  std::vector<Reader> readers;
};

// Runs one thread per rank; the first exception of any of them is thrown again here.
inline void run_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

// The message of the Error that `body` throws; empty when it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const tutti::Error& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tcp_test

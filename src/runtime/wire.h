// The bytes of the rendezvous and of the control plane: little-endian fields, and frames on a stream.
//
//   frame = u32 bytes that follow | u8 type | payload
//
// Everything read from the network goes through Reader and Channel, which are bounded: a length is checked against what
// has arrived and against a limit before anything is allocated.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/fd.h"

namespace tutti::runtime {

using Bytes = std::vector<std::byte>;

// The value of a hexadecimal digit of either case, -1 for any other character.
int hex_digit(char c);

class Writer {
 public:
  Writer& u8(std::uint8_t value) { return number(value, 1); }
  Writer& u16(std::uint16_t value) { return number(value, 2); }
  Writer& u32(std::uint32_t value) { return number(value, 4); }
  Writer& u64(std::uint64_t value) { return number(value, 8); }
  Writer& raw(std::span<const std::byte> bytes);
  Writer& blob(std::span<const std::byte> bytes);  // u32 length, bytes
  Writer& text(std::string_view text);             // the same

  const Bytes& bytes() const { return bytes_; }

 private:
  Writer& number(std::uint64_t value, int bytes);
  Bytes bytes_;
};

// Reads fields in the order of writing. After a field that is not all there, everything is zero or empty and complete()
// is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::span<const std::byte> raw(std::size_t bytes);
  std::span<const std::byte> blob() { return raw(u32()); }
  std::string text();

  bool ok() const { return !failed_; }
  bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::uint64_t number(int bytes);
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

struct Frame {
  std::uint8_t type = 0;
  Bytes payload;
};

// A non-blocking stream socket with its unread input and unsent output. One thread at a time.
class Channel {
 public:
  Channel() = default;
  Channel(base::Fd fd, std::size_t limit) : fd_(std::move(fd)), limit_(limit) {}

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void set_limit(std::size_t bytes) { limit_ = bytes; }                // of one frame that comes
  void set_output_limit(std::size_t bytes) { output_limit_ = bytes; }  // of all that is unsent
  void close() { fd_.reset(); }

  // Takes in what the socket has. False when the peer closed it or an error ended it; frames that came before can
  // still be taken.
  bool receive();
  // The next whole frame. An oversized one marks the channel as broken.
  std::optional<Frame> next();
  // The next whole frame, waited for; nothing at `until` or when the connection ended (then end() is set).
  std::optional<Frame> await(std::chrono::steady_clock::time_point until);
  bool broken() const { return broken_; }
  const std::string& end() const { return end_; }  // why receive() or send() said false

  // Queues a frame and sends what the socket takes. False when the connection is lost, or the peer takes so little that
  // the frame would exceed the output limit (overfull: nothing more can be sent).
  bool send(std::uint8_t type, std::span<const std::byte> payload);
  bool flush();
  bool unsent() const { return sent_ < output_.size(); }
  bool overfull() const { return overfull_; }
  void finish();  // no more output will follow: the peer reads to the end and then sees it

 private:
  void trim();

  base::Fd fd_;
  std::size_t limit_ = 0;
  Bytes input_;
  std::size_t taken_ = 0;
  Bytes output_;
  std::size_t sent_ = 0;
  std::size_t output_limit_ = std::size_t{64} << 20;
  bool broken_ = false;
  bool overfull_ = false;
  std::string end_;
};

}  // namespace tutti::runtime

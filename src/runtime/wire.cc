#include "src/runtime/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "src/base/error.h"
#include "src/base/socket.h"

namespace tutti::runtime {

using base::Transfer;

namespace {
constexpr std::size_t kLengthBytes = 4;
}

Writer& Writer::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  return *this;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Writer& Writer::raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

Writer& Writer::blob(std::span<const std::byte> bytes) {
  u32(static_cast<std::uint32_t>(bytes.size()));
  return raw(bytes);
}

Writer& Writer::text(std::string_view text) { return blob(std::as_bytes(std::span(text.data(), text.size()))); }

std::uint64_t Reader::number(int bytes) {
  const auto field = raw(static_cast<std::size_t>(bytes));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < field.size(); ++i) value |= std::to_integer<std::uint64_t>(field[i]) << (8 * i);
  return value;
}

std::span<const std::byte> Reader::raw(std::size_t bytes) {
  if (failed_ || bytes > rest_.size()) {
    failed_ = true;
    return {};
  }
  const auto field = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return field;
}

std::string Reader::text() {
  const auto field = blob();
  return {reinterpret_cast<const char*>(field.data()), field.size()};
}

bool Channel::receive() {
  if (taken_ > 0) {
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
  }
  std::array<std::byte, 16384> chunk;
  // At most one frame of the allowed size is kept; the rest waits in the socket.
  while (input_.size() < limit_ + kLengthBytes) {
    const Transfer got = base::receive(fd_.get(), chunk.data(), chunk.size());
    if (got.state == Transfer::State::closed || got.state == Transfer::State::failed) {
      end_ = got.state == Transfer::State::closed ? "closed" : base::errno_text(got.error);
      return false;
    }
    input_.insert(input_.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(got.bytes));
    if (got.bytes < chunk.size()) return true;
  }
  return true;
}

std::optional<Frame> Channel::next() {
  if (broken_) return std::nullopt;
  const auto unread = std::span<const std::byte>(input_).subspan(taken_);
  if (unread.size() < kLengthBytes) return std::nullopt;
  const std::size_t bytes = Reader(unread).u32();
  if (bytes == 0 || bytes > limit_) {
    broken_ = true;
    end_ = "a frame of " + std::to_string(bytes) + " bytes (the limit is " + std::to_string(limit_) + ")";
    return std::nullopt;
  }
  if (unread.size() < kLengthBytes + bytes) return std::nullopt;
  Frame frame;
  frame.type = std::to_integer<std::uint8_t>(unread[kLengthBytes]);
  const auto payload = unread.subspan(kLengthBytes + 1, bytes - 1);
  frame.payload.assign(payload.begin(), payload.end());
  taken_ += kLengthBytes + bytes;
  return frame;
}

std::optional<Frame> Channel::await(std::chrono::steady_clock::time_point until) {
  for (;;) {
    if (auto frame = next()) return frame;
    if (broken_ || !base::wait_ready(fd_.get(), POLLIN, until)) return std::nullopt;
    if (!receive()) return next();
  }
}

bool Channel::send(std::uint8_t type, std::span<const std::byte> payload) {
  const std::size_t waiting = output_.size() - sent_;
  if (overfull_ || waiting + kLengthBytes + 1 + payload.size() > output_limit_) {
    overfull_ = true;
    end_ = "it does not take its messages: " + std::to_string(waiting) + " bytes wait for it (the limit is " +
           std::to_string(output_limit_) + ")";
    return false;
  }
  const Writer head = Writer().u32(static_cast<std::uint32_t>(payload.size() + 1)).u8(type);
  output_.insert(output_.end(), head.bytes().begin(), head.bytes().end());
  output_.insert(output_.end(), payload.begin(), payload.end());
  return flush();
}

bool Channel::flush() {
  while (unsent()) {
    const Transfer put = base::send(fd_.get(), output_.data() + sent_, output_.size() - sent_);
    if (put.state == Transfer::State::failed) {
      end_ = base::errno_text(put.error);
      return false;
    }
    sent_ += put.bytes;
    if (put.state == Transfer::State::would_block) {
      trim();
      return true;
    }
  }
  output_.clear();
  sent_ = 0;
  return true;
}

// Forgets what is sent, once it is half of all: every byte moves once at most on average.
void Channel::trim() {
  if (sent_ < output_.size() - sent_) return;
  output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
}

void Channel::finish() { ::shutdown(fd_.get(), SHUT_WR); }

}  // namespace tutti::runtime

// The one kind of instruction that every collective is made of, as plain data that device code may use too.
//
// Words (docs/design.md defines them once for all): a buffer is input, output or scratch; a chunk is 1/C of a buffer;
// a port is one writer's way to a set of readers, and one reader's end of it is a connection; a message is what one
// Step sends through one port in one round.
#pragma once

#include <cstdint>

namespace tutti::schedule {

enum class Buffer : std::uint8_t { input = 0, output = 1, scratch = 2 };

// An operand of a Step: a chunk of one of this rank's buffers, or the next message of a connection.
struct Operand {
  enum class Kind : std::uint8_t { local, recv };
  Kind kind = Kind::local;
  Buffer buffer = Buffer::input;
  bool prescale = false;   // derived: a raw contribution, where pre-scaling ops apply their factor
  std::int32_t index = 0;  // local: first chunk; recv: the port whose message is taken

  static constexpr Operand local(Buffer buffer, int chunk) { return {Kind::local, buffer, false, chunk}; }
  static constexpr Operand recv(int port) { return {Kind::recv, Buffer::input, false, port}; }
  friend constexpr bool operator==(const Operand&, const Operand&) = default;
};

// Where a Step's result goes: a chunk of one of this rank's buffers, or one message through a port.
struct Destination {
  enum class Kind : std::uint8_t { local, send };
  Kind kind = Kind::local;
  Buffer buffer = Buffer::output;
  std::int32_t index = 0;  // local: first chunk; send: the port

  static constexpr Destination local(Buffer buffer, int chunk) { return {Kind::local, buffer, chunk}; }
  static constexpr Destination send(int port) { return {Kind::send, Buffer::output, port}; }
  friend constexpr bool operator==(const Destination&, const Destination&) = default;
};

// "Step `step` of lane `lane` of this rank has run in this round."
struct Dependency {
  std::int32_t lane = 0;
  std::int32_t step = 0;
  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

}  // namespace tutti::schedule

// What Communicator::exchange() moves between two ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/types.h"

namespace tutti {

// One message of exchange(): what one rank sends to, or takes from, one peer. The k-th that a rank sends to another
// meets the k-th that the other receives from it, over all calls; count and type must be equal on both.
struct Transfer {
  enum class Direction : std::uint8_t { send, receive };
  Direction direction = Direction::send;
  void* data = nullptr;   // a send only reads it; may be null when count is 0
  std::size_t count = 0;  // elements
  DataType type = DataType::float32;
  int peer = 0;  // this rank itself is allowed: within a call, its k-th send meets its k-th receive
};

}  // namespace tutti

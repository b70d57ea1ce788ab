// The three ways in which a message travels, and which messages may take which.
//
// copied: the sending Step writes it into a slot, the receiving Step reads it there.
// lent:   the receiving Step reads it in the sender's memory; only a message that is a plain chunk of a user's buffer.
//         Where the operator pre-scales, the reader applies the sender's factor (Operand::prescale of the sender's
//         operand).
// placed: the sending Step writes it to the receiver's destination; only where the receiver does nothing but store it
//         in its output.
#pragma once

#include <cstdint>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

enum class Transfer : std::uint8_t {
  copied = 0,
  lent = 1,
  placed = 2,
  mixed = 3
};  // mixed: of one operation's messages,
    // some are lent, others placed
inline constexpr int kTransfers = 4;

// Whether the message that `sender` sends can be lent.
inline bool can_lend(const Step& sender) {
  return sender.in.size() == 1 && sender.in.front().kind == Operand::Kind::local &&
         sender.in.front().buffer != Buffer::scratch;
}

// Whether the message that `receiver` takes can be placed.
inline bool can_place(const Step& receiver) {
  return receiver.in.size() == 1 && receiver.in.front().kind == Operand::Kind::recv && receiver.out.size() == 1 &&
         receiver.out.front().kind == Destination::Kind::local && receiver.out.front().buffer == Buffer::output;
}

}  // namespace tutti::schedule

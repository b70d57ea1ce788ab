// What a meeting says to those it has let in, after the handshake.
#pragma once

#include <cstdint>

namespace tutti::runtime {

enum MeetingFrame : std::uint8_t {
  kProgress = 8,  // text: who is missing
  kRoster = 9,
};

}  // namespace tutti::runtime

// One way to run an algorithm: how many lanes, how many slots, and of what size. Written "twoshot", "twoshot/2" (lanes)
// or "twoshot/2/4x64K" (lanes, slots x bytes of one); what is not said is left to the planner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::planner {

struct Geometry {
  std::uint32_t slots = 2;        // per port
  std::uint32_t slot_bytes = 64;  // payload of one message at most, a multiple of 64
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

inline constexpr int kMostLanes = 2;
inline constexpr std::uint32_t kMostSlots = 64;
inline constexpr std::uint32_t kMostSlotBytes = 16u << 20;

struct Variant {
  std::string algorithm;
  int lanes = 0;            // 0: not said
  Geometry geometry{0, 0};  // 0 slots: not said
  friend bool operator==(const Variant&, const Variant&) = default;
};

// Parses what follows the name, "" or "/2" or "/2/4x64K", into `variant`. Returns what is wrong with it and what would
// be valid; empty when nothing is.
std::string parse_suffix(std::string_view text, Variant& variant);
std::string to_text(const Variant& variant);
// The name alone.
std::string algorithm_of(std::string_view variant);

}  // namespace tutti::planner

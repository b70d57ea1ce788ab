// Size classes: every count of a class has the same plan. Upper borders are 64 bytes, then two per power of two: 96,
// 128, 192, 256, 384, ... Crossovers between algorithms lie on class borders.
#pragma once

#include <bit>
#include <cstddef>

namespace tutti::planner {

// The largest class; its border is 2^63 bytes.
inline constexpr int kLastClass = 2 * (63 - 6);

constexpr std::size_t class_border(int size_class) {
  const std::size_t power = std::size_t{64} << (size_class / 2);
  return size_class % 2 == 0 ? power : power / 2 * 3;
}

// The smallest class whose border is at least `bytes`.
constexpr int class_of(std::size_t bytes) {
  if (bytes <= 64) return 0;
  if (bytes > class_border(kLastClass)) return kLastClass;
  const int upper = 2 * (std::bit_width(bytes - 1) - 6);  // border: the next power of two
  return bytes <= class_border(upper - 1) ? upper - 1 : upper;
}

}  // namespace tutti::planner

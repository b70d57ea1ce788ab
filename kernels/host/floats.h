// Conversions between float32 and the 16- and 8-bit floats, one value at a time: the rules of the kernels, for tests
// and tools. To float32 is exact; from float32 rounds once, to nearest even. Any NaN becomes the target type's
// canonical NaN. Too large becomes infinity; in float8_e4m3, which has none, NaN (no saturation; infinity too).
#pragma once

#include <cstdint>

namespace tutti::kernels {

inline constexpr std::uint16_t kFloat16NaN = 0x7e00;
inline constexpr std::uint16_t kBfloat16NaN = 0x7fc0;
inline constexpr std::uint8_t kFloat8E4m3NaN = 0x7f;
inline constexpr std::uint8_t kFloat8E5m2NaN = 0x7e;
inline constexpr std::uint32_t kFloat32NaN = 0x7fc00000;
inline constexpr std::uint64_t kFloat64NaN = 0x7ff8000000000000;

float float16_to_float32(std::uint16_t bits);
float bfloat16_to_float32(std::uint16_t bits);
float float8_e4m3_to_float32(std::uint8_t bits);
float float8_e5m2_to_float32(std::uint8_t bits);

std::uint16_t float32_to_float16(float value);
std::uint16_t float32_to_bfloat16(float value);
std::uint8_t float32_to_float8_e4m3(float value);
std::uint8_t float32_to_float8_e5m2(float value);

}  // namespace tutti::kernels

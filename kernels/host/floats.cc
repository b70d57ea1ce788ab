#include "kernels/host/floats.h"

#include "kernels/host/minifloat.h"

namespace tutti::kernels {
namespace {

struct Scalar {
  using F = float;
  using U = std::uint32_t;
  using I = std::int32_t;
};

template <class Format>
float decode(std::uint32_t bits) {
  const float value = Format::template decode<Scalar>(bits);
  return value == value ? value : __builtin_bit_cast(float, kFloat32NaN);
}

}  // namespace

float float16_to_float32(std::uint16_t bits) { return decode<Float16>(bits); }
float bfloat16_to_float32(std::uint16_t bits) { return decode<Bfloat16>(bits); }
float float8_e4m3_to_float32(std::uint8_t bits) { return decode<Float8E4m3>(bits); }
float float8_e5m2_to_float32(std::uint8_t bits) { return decode<Float8E5m2>(bits); }

std::uint16_t float32_to_float16(float value) { return static_cast<std::uint16_t>(Float16::encode<Scalar>(value)); }
std::uint16_t float32_to_bfloat16(float value) { return static_cast<std::uint16_t>(Bfloat16::encode<Scalar>(value)); }
std::uint8_t float32_to_float8_e4m3(float value) {
  return static_cast<std::uint8_t>(Float8E4m3::encode<Scalar>(value));
}
std::uint8_t float32_to_float8_e5m2(float value) {
  return static_cast<std::uint8_t>(Float8E5m2::encode<Scalar>(value));
}

}  // namespace tutti::kernels

// The scalar conversions against the formats' tables of values.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/host/floats.h"
#include "tests/kernels/kernel_case.h"
#include "tests/kernels/reference.h"

using namespace tutti;

namespace {

struct Conversion {
  DataType type;
  float (*decode)(std::uint32_t);
  std::uint32_t (*encode)(float);
};

const std::array<Conversion, 4> kConversions{{
    {DataType::float16, [](std::uint32_t c) { return kernels::float16_to_float32(static_cast<std::uint16_t>(c)); },
     [](float f) -> std::uint32_t { return kernels::float32_to_float16(f); }},
    {DataType::bfloat16, [](std::uint32_t c) { return kernels::bfloat16_to_float32(static_cast<std::uint16_t>(c)); },
     [](float f) -> std::uint32_t { return kernels::float32_to_bfloat16(f); }},
    {DataType::float8_e4m3,
     [](std::uint32_t c) { return kernels::float8_e4m3_to_float32(static_cast<std::uint8_t>(c)); },
     [](float f) -> std::uint32_t { return kernels::float32_to_float8_e4m3(f); }},
    {DataType::float8_e5m2,
     [](std::uint32_t c) { return kernels::float8_e5m2_to_float32(static_cast<std::uint8_t>(c)); },
     [](float f) -> std::uint32_t { return kernels::float32_to_float8_e5m2(f); }},
}};

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("every code of the small floats converts to its value and back") {
  for (const Conversion& conversion : kConversions) {
    INFO(name_of(conversion.type));
    const reference::Format& format = reference::format_of(conversion.type);
    for (std::uint32_t code = 0; code < format.codes(); ++code) {
      const float expected = format.decode(code);
      const float got = conversion.decode(code);
      const bool nan = std::isnan(expected);
      if (bits_of(got) != (nan ? 0x7fc00000u : bits_of(expected)) ||
          conversion.encode(got) != (nan ? format.nan() : code))
        FAIL("code " << code << " gives " << got << " and back " << conversion.encode(got));
    }
  }
}

TEST_CASE("conversion from float32 rounds once to nearest even") {
  for (const Conversion& conversion : kConversions) {
    INFO(name_of(conversion.type));
    const reference::Format& format = reference::format_of(conversion.type);
    const auto check = [&](float value) {
      for (const float signed_value : {value, -value})
        if (conversion.encode(signed_value) != format.encode(signed_value))
          FAIL(signed_value << " gives " << conversion.encode(signed_value) << ", not " << format.encode(signed_value));
    };
    const float infinity = std::numeric_limits<float>::infinity();
    for (std::uint32_t code = 0; code < format.overflow(); ++code) {  // every border between two codes
      const auto middle = static_cast<float>((format.value(code) + format.value(code + 1)) / 2);
      check(middle);
      check(std::nextafter(middle, infinity));
      check(std::nextafter(middle, 0.0f));
    }
    Random random(1);
    for (int i = 0; i < 400000; ++i) check(from_bits(static_cast<std::uint32_t>(random.next())));
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
      for (std::uint32_t mantissa : {0u, 1u, 0x3fffffu, 0x400000u, 0x400001u, 0x7fffffu})
        check(from_bits(exponent << 23 | mantissa));
  }
}

TEST_CASE("known values of the small floats") {
  CHECK(kernels::float32_to_float16(65504.0f) == 0x7bff);
  CHECK(kernels::float32_to_float16(65520.0f) == 0x7c00);  // infinity
  CHECK(kernels::float32_to_float16(0x1p-24f) == 0x0001);
  CHECK(kernels::float32_to_bfloat16(1.0f) == 0x3f80);
  CHECK(kernels::float32_to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(kernels::float32_to_float8_e4m3(448.0f) == 0x7e);
  CHECK(kernels::float32_to_float8_e4m3(464.0f) == 0x7e);
  CHECK(kernels::float32_to_float8_e4m3(465.0f) == kernels::kFloat8E4m3NaN);
  CHECK(kernels::float32_to_float8_e4m3(-std::numeric_limits<float>::infinity()) == kernels::kFloat8E4m3NaN);
  CHECK(kernels::float32_to_float8_e4m3(-0x1p-9f) == 0x81);
  CHECK(kernels::float32_to_float8_e5m2(57344.0f) == 0x7b);
  CHECK(kernels::float32_to_float8_e5m2(61440.0f) == 0x7c);  // infinity
  CHECK(kernels::float32_to_float8_e5m2(0x1p-16f) == 0x01);
}

// How a value of each DataType is stored, for making inputs and judging outputs. Written apart from the library's own
// conversions on purpose: a benchmark that used them to check them would not see their faults.
//
// A float format is described by its precision p (significant bits, the hidden one counted), and the exponents of its
// smallest normal value and of its largest power of two.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::perf {

template <class T>
struct Integer {
  using Storage = T;
  static constexpr bool kFloat = false;
};

// A byte that is 0 or 1.
struct Boolean {
  using Storage = std::uint8_t;
  static constexpr bool kFloat = false;
};

// Formats that C++ knows.
template <class T, class BitsOf, int kPrecisionBits, int kMinimum, int kMaximum>
struct NativeFloat {
  using Storage = T;
  using Bits = BitsOf;
  static constexpr bool kFloat = true;
  static constexpr int kPrecision = kPrecisionBits, kMinExponent = kMinimum, kMaxExponent = kMaximum;
  static Storage encode(double value) { return static_cast<T>(value); }
  static double decode(Storage stored) { return stored; }
  // Any finite value from random bits, never -0: a number has then one pattern of bits.
  static Storage finite(std::uint64_t random) {
    Bits bits = static_cast<Bits>(random);
    constexpr Bits kExponent =
        static_cast<Bits>(((Bits{1} << (sizeof(Bits) * 8 - kPrecision)) - 1) << (kPrecision - 1));
    if ((bits & kExponent) == kExponent) bits ^= Bits{1} << (kPrecision - 1);
    if (static_cast<Bits>(bits << 1) == 0) bits = 0;
    return std::bit_cast<T>(bits);
  }
};

// Formats of 16 and 8 bits, stored as unsigned integers: sign, exponent, mantissa.
template <class T, int kExponentBits, bool kHasInfinity>
struct SmallFloat {
  using Storage = T;
  using Bits = T;
  static constexpr bool kFloat = true;
  static constexpr int kMantissaBits = static_cast<int>(sizeof(T)) * 8 - 1 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kPrecision = kMantissaBits + 1;
  static constexpr int kMinExponent = 1 - kBias;
  static constexpr int kMaxExponent = kHasInfinity ? kBias : kBias + 1;
  static constexpr unsigned kSign = 1u << (kExponentBits + kMantissaBits);

  // To nearest, ties to even; `value` must not overflow the format.
  static Storage encode(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const unsigned sign = bits >> 63 ? kSign : 0;
    if (bits << 1 == 0) return static_cast<T>(sign);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const bool subnormal = exponent < kMinExponent;
    const int shift = 52 - kMantissaBits + (subnormal ? kMinExponent - exponent : 0);
    if (shift > 54) return static_cast<T>(sign);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    const std::uint64_t rounded = (mantissa + half - 1 + (mantissa >> shift & 1)) >> shift;
    // The hidden bit of a normal number adds one to the exponent field, which therefore starts one lower.
    const std::uint64_t field = subnormal ? 0 : static_cast<std::uint64_t>(exponent - kMinExponent);
    return static_cast<T>(sign | static_cast<unsigned>((field << kMantissaBits) + rounded));
  }
  static double decode(Storage stored) {
    const int field = stored >> kMantissaBits & ((1 << kExponentBits) - 1);
    const int mantissa = stored & ((1 << kMantissaBits) - 1);
    double magnitude;
    if (kHasInfinity && field == (1 << kExponentBits) - 1)
      magnitude = mantissa ? NAN : INFINITY;
    else if (!kHasInfinity && field == (1 << kExponentBits) - 1 && mantissa == (1 << kMantissaBits) - 1)
      magnitude = NAN;
    else if (field == 0)
      magnitude = std::ldexp(mantissa, kMinExponent - kMantissaBits);
    else
      magnitude = std::ldexp(mantissa + (1 << kMantissaBits), field - kBias - kMantissaBits);
    return stored & kSign ? -magnitude : magnitude;
  }
  static Storage finite(std::uint64_t random) {
    unsigned bits = static_cast<T>(random);
    constexpr unsigned kExponent = ((1u << kExponentBits) - 1) << kMantissaBits;
    if (kHasInfinity ? (bits & kExponent) == kExponent : (bits & (kSign - 1)) == kSign - 1)
      bits ^= kHasInfinity ? 1u << kMantissaBits : 1u;
    if ((bits & (kSign - 1)) == 0) bits = 0;
    return static_cast<T>(bits);
  }
};

using Float32 = NativeFloat<float, std::uint32_t, 24, -126, 127>;
using Float64 = NativeFloat<double, std::uint64_t, 53, -1022, 1023>;
using Float16 = SmallFloat<std::uint16_t, 5, true>;
using BFloat16 = SmallFloat<std::uint16_t, 8, true>;
using Float8E4M3 = SmallFloat<std::uint8_t, 4, false>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, true>;

// Calls f.operator()<Format>() with the format of `type`.
template <class F>
decltype(auto) with_format(DataType type, F&& f) {
  switch (type) {
    case DataType::int8: return f.template operator()<Integer<std::int8_t>>();
    case DataType::uint8: return f.template operator()<Integer<std::uint8_t>>();
    case DataType::int16: return f.template operator()<Integer<std::int16_t>>();
    case DataType::uint16: return f.template operator()<Integer<std::uint16_t>>();
    case DataType::int32: return f.template operator()<Integer<std::int32_t>>();
    case DataType::uint32: return f.template operator()<Integer<std::uint32_t>>();
    case DataType::int64: return f.template operator()<Integer<std::int64_t>>();
    case DataType::uint64: return f.template operator()<Integer<std::uint64_t>>();
    case DataType::boolean: return f.template operator()<Boolean>();
    case DataType::float16: return f.template operator()<Float16>();
    case DataType::float32: return f.template operator()<Float32>();
    case DataType::float64: return f.template operator()<Float64>();
    case DataType::bfloat16: return f.template operator()<BFloat16>();
    case DataType::float8_e4m3: return f.template operator()<Float8E4M3>();
    case DataType::float8_e5m2: return f.template operator()<Float8E5M2>();
  }
  throw Error(ErrorCode::invalid_argument, "the data type " + std::to_string(static_cast<int>(type)) + " is unknown");
}

}  // namespace tutti::perf

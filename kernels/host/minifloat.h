// The 16- and 8-bit float formats: decode to float32 (exact) and encode from float32 (nearest even), written once for
// one value and for vectors of any width. `Lanes` names three types of equal shape: F (float), U (uint32), I (int32),
// all scalars or all vectors; codes travel in the low bits of U.
//
// decode: a normal number's exponent and mantissa go where float32 has them, and the exponent's bias is changed.
//         A denormal is a whole number of smallest steps: it is written into the last bits of a power of two 2^k whose
//         last bit is worth one step, and 2^k is subtracted. (Multiplying float32 denormals instead is slow on many
//         CPUs.)
// encode: normal results: add half a unit of the last kept bit, minus one if that bit is even, and cut.
//         denormal results: add that 2^k; the addition itself rounds to nearest even.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// Everything here is inlined into code that is compiled for one instruction set; nothing may be shared between those.
#define TUTTI_INLINE [[gnu::always_inline]] inline

template <class To, class From>
TUTTI_INLINE To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

template <int kExponentBits, int kMantissaBits, bool kHasInfinity, std::uint32_t kNaN>
struct MiniFloat {
  static constexpr int kBits = 1 + kExponentBits + kMantissaBits;
  static constexpr std::uint32_t kCodeMask = (1u << (kBits - 1)) - 1;  // all but the sign
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kRebias = 127 - kBias;
  static constexpr int kShift = 23 - kMantissaBits;
  // The first code beyond the finite ones: infinity, or in e4m3 its NaN.
  static constexpr int kOverflow = kHasInfinity ? ((1 << kExponentBits) - 1) << kMantissaBits : (1 << (kBits - 1)) - 1;
  static constexpr int kInfinityBits = 0x7f800000;  // of float32
  // The float32 power of two whose last bit is worth the format's smallest step.
  static constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(127 + 24 - kBias - kMantissaBits) << 23;

  template <class Lanes>
  TUTTI_INLINE static typename Lanes::F decode(typename Lanes::U code) {
    using U = typename Lanes::U;
    using I = typename Lanes::I;
    using F = typename Lanes::F;
    const U magnitude = code & kCodeMask;
    const U sign = (code >> (kBits - 1)) << 31;
    const U shifted = magnitude << kShift;
    const U normal = shifted + (static_cast<std::uint32_t>(kRebias) << 23);
    const F magic = F{} + __builtin_bit_cast(float, kMagic);
    const U denormal = bits_as<U>(bits_as<F>(magnitude + kMagic) - magic);
    const U special = shifted | static_cast<std::uint32_t>(kInfinityBits);  // in e4m3 the mantissa makes it a NaN
    const U finite = bits_as<I>(magnitude) < (1 << kMantissaBits) ? denormal : normal;
    return bits_as<F>((bits_as<I>(magnitude) >= kOverflow ? special : finite) | sign);
  }

  template <class Lanes>
  TUTTI_INLINE static typename Lanes::U encode(typename Lanes::F value) {
    using U = typename Lanes::U;
    using I = typename Lanes::I;
    using F = typename Lanes::F;
    const U bits = bits_as<U>(value);
    const U magnitude = bits & 0x7fffffffu;
    const U sign = (bits >> 31) << (kBits - 1);

    constexpr std::uint32_t kHalf = 1u << (kShift - 1);
    constexpr std::uint32_t kRoundAndRebias = kHalf - 1 - (static_cast<std::uint32_t>(kRebias) << 23);
    const U normal = (magnitude + kRoundAndRebias + ((magnitude >> kShift) & 1u)) >> kShift;

    const F magic = F{} + __builtin_bit_cast(float, kMagic);
    const U denormal = bits_as<U>(bits_as<F>(magnitude) + magic) - kMagic;

    constexpr int kSmallestNormal = (kRebias + 1) << 23;
    const U code = bits_as<I>(magnitude) < kSmallestNormal ? denormal : normal;
    const U nan = U{} + kNaN;
    if constexpr (kHasInfinity) {
      const U clipped = bits_as<I>(code) > kOverflow ? U{} + static_cast<std::uint32_t>(kOverflow) : code;
      return bits_as<I>(magnitude) > kInfinityBits ? nan : (clipped | sign);
    } else {
      return bits_as<I>(code) >= kOverflow ? nan : (code | sign);
    }
  }
};

// bfloat16 is the upper half of a float32.
struct UpperHalf {
  static constexpr int kBits = 16;

  template <class Lanes>
  TUTTI_INLINE static typename Lanes::F decode(typename Lanes::U code) {
    return bits_as<typename Lanes::F>(code << 16);
  }

  template <class Lanes>
  TUTTI_INLINE static typename Lanes::U encode(typename Lanes::F value) {
    using U = typename Lanes::U;
    using I = typename Lanes::I;
    const U bits = bits_as<U>(value);
    const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return bits_as<I>(bits & 0x7fffffffu) > 0x7f800000 ? U{} + 0x7fc0u : rounded;
  }
};

using Float16 = MiniFloat<5, 10, true, 0x7e00>;
using Bfloat16 = UpperHalf;
using Float8E4m3 = MiniFloat<4, 3, false, 0x7f>;
using Float8E5m2 = MiniFloat<5, 2, true, 0x7e>;

}  // namespace tutti::kernels

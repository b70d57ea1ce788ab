// Vectors of any element type and width, by the compilers' vector extension: + - * / < ?: work lane by lane and are
// compiled for the instruction set of the including file. Only what the compilers translate badly is left to each
// instruction set; BasicIsa has the fallbacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/host/minifloat.h"

namespace tutti::kernels {

template <class T, int kBytes>
struct VectorOf {
  using type [[gnu::vector_size(kBytes)]] = T;
};
template <class T, int kBytes>
using Vector = typename VectorOf<T, kBytes>::type;

template <class V>
TUTTI_INLINE V load(const std::byte* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
TUTTI_INLINE void store(std::byte* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// An instruction set: the bytes of its vectors, and the float32 lanes that hold 16- and 8-bit floats while they are
// computed with. Narrowing is given codes that fit.
template <int kVectorBytes>
struct BasicIsa {
  static constexpr int kBytes = kVectorBytes;
  using F = Vector<float, kBytes>;
  using U = Vector<std::uint32_t, kBytes>;
  using I = Vector<std::int32_t, kBytes>;
  using U16 = Vector<std::uint16_t, kBytes / 2>;
  using U8 = Vector<std::uint8_t, kBytes / 4>;
  struct Lanes {
    using F = BasicIsa::F;
    using U = BasicIsa::U;
    using I = BasicIsa::I;
  };

  TUTTI_INLINE static U widen(U16 codes) { return __builtin_convertvector(codes, U); }
  TUTTI_INLINE static U widen(U8 codes) { return __builtin_convertvector(codes, U); }
  TUTTI_INLINE static void narrow(U codes, U16& to) { to = __builtin_convertvector(codes, U16); }
  TUTTI_INLINE static void narrow(U codes, U8& to) { to = __builtin_convertvector(codes, U8); }

  TUTTI_INLINE static F decode_half(U16 codes) { return Float16::decode<Lanes>(__builtin_convertvector(codes, U)); }
  TUTTI_INLINE static U16 encode_half(F value) { return __builtin_convertvector(Float16::encode<Lanes>(value), U16); }

  // Stores past the caches to an address aligned to the vector's size; fence() makes them visible in program order.
  template <class V>
  TUTTI_INLINE static void stream(std::byte* to, V value) {
    store(to, value);
  }
  TUTTI_INLINE static void fence() {}
};

}  // namespace tutti::kernels

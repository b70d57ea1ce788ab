// 64-byte vectors for x86-64 CPUs with AVX-512 F, BW, DQ and VL.
#include <immintrin.h>

#include "kernels/host/reduce.h"
#include "kernels/host/tables.h"

namespace tutti::kernels {
namespace {

// The forms with a mask: those without pass an undefined vector that the compiler then warns about.
constexpr __mmask16 kAllLanes = 0xffff;

struct Avx512 : BasicIsa<64> {
  TUTTI_INLINE static U widen(U16 codes) {
    return bits_as<U>(_mm512_maskz_cvtepu16_epi32(kAllLanes, bits_as<__m256i>(codes)));
  }
  TUTTI_INLINE static U widen(U8 codes) {
    return bits_as<U>(_mm512_maskz_cvtepu8_epi32(kAllLanes, bits_as<__m128i>(codes)));
  }
  TUTTI_INLINE static void narrow(U codes, U16& to) {
    to = bits_as<U16>(_mm512_maskz_cvtepi32_epi16(kAllLanes, bits_as<__m512i>(codes)));
  }
  TUTTI_INLINE static void narrow(U codes, U8& to) {
    to = bits_as<U8>(_mm512_maskz_cvtepi32_epi8(kAllLanes, bits_as<__m512i>(codes)));
  }

  TUTTI_INLINE static F decode_half(U16 codes) {
    return bits_as<F>(_mm512_maskz_cvtph_ps(kAllLanes, bits_as<__m256i>(codes)));
  }
  // The instruction keeps a NaN's sign and payload: it is given the canonical NaN.
  TUTTI_INLINE static U16 encode_half(F value) {
    const F canonical = FloatOperations<Avx512, float>::canonical(value);
    return bits_as<U16>(_mm512_maskz_cvtps_ph(kAllLanes, bits_as<__m512>(canonical), _MM_FROUND_TO_NEAREST_INT));
  }

  template <class V>
  TUTTI_INLINE static void stream(std::byte* to, V value) {
    if constexpr (sizeof(V) == 64)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits_as<__m512i>(value));
    else if constexpr (sizeof(V) == 32)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits_as<__m256i>(value));
    else
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits_as<__m128i>(value));
  }
  TUTTI_INLINE static void fence() { _mm_sfence(); }
};

}  // namespace

constinit const runtime::Kernels kAvx512Kernels = make_table<Avx512>("avx512");

}  // namespace tutti::kernels

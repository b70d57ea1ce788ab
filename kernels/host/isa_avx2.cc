// 32-byte vectors for x86-64 CPUs with AVX2 and F16C.
#include <immintrin.h>

#include "kernels/host/reduce.h"
#include "kernels/host/tables.h"

namespace tutti::kernels {
namespace {

struct Avx2 : BasicIsa<32> {
  TUTTI_INLINE static U widen(U16 codes) { return bits_as<U>(_mm256_cvtepu16_epi32(bits_as<__m128i>(codes))); }
  TUTTI_INLINE static U widen(U8 codes) {
    return bits_as<U>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bits_as<long long>(codes))));
  }

  // Pack works within each half of the register: the halves are packed against each other.
  TUTTI_INLINE static __m128i narrow_to_16(U codes) {
    const __m256i wide = bits_as<__m256i>(codes);
    return _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  }
  TUTTI_INLINE static void narrow(U codes, U16& to) { to = bits_as<U16>(narrow_to_16(codes)); }
  TUTTI_INLINE static void narrow(U codes, U8& to) {
    const __m128i words = narrow_to_16(codes);
    to = bits_as<U8>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
  }

  TUTTI_INLINE static F decode_half(U16 codes) { return bits_as<F>(_mm256_cvtph_ps(bits_as<__m128i>(codes))); }
  // The instruction keeps a NaN's sign and payload: it is given the canonical NaN.
  TUTTI_INLINE static U16 encode_half(F value) {
    const F canonical = FloatOperations<Avx2, float>::canonical(value);
    return bits_as<U16>(_mm256_cvtps_ph(bits_as<__m256>(canonical), _MM_FROUND_TO_NEAREST_INT));
  }

  template <class V>
  TUTTI_INLINE static void stream(std::byte* to, V value) {
    if constexpr (sizeof(V) == 32)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits_as<__m256i>(value));
    else if constexpr (sizeof(V) == 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits_as<__m128i>(value));
    else
      _mm_stream_si64(reinterpret_cast<long long*>(to), bits_as<long long>(value));
  }
  TUTTI_INLINE static void fence() { _mm_sfence(); }
};

}  // namespace

constinit const runtime::Kernels kAvx2Kernels = make_table<Avx2>("avx2");

}  // namespace tutti::kernels

// The table that every CPU of the target can run: 16-byte vectors of the target's base instruction set.
#include "kernels/host/reduce.h"
#include "kernels/host/tables.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tutti::kernels {
namespace {

struct Plain : BasicIsa<16> {
#if defined(__x86_64__)
  template <class V>
  TUTTI_INLINE static void stream(std::byte* to, V value) {
    if constexpr (sizeof(V) == 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits_as<__m128i>(value));
    else if constexpr (sizeof(V) == 8)
      _mm_stream_si64(reinterpret_cast<long long*>(to), bits_as<long long>(value));
    else
      _mm_stream_si32(reinterpret_cast<int*>(to), bits_as<int>(value));
  }
  TUTTI_INLINE static void fence() { _mm_sfence(); }
#endif
};

}  // namespace

constinit const runtime::Kernels kPlainKernels = make_table<Plain>("plain");

}  // namespace tutti::kernels

// 16-byte vectors for 64-bit ARM, whose base set has the float16 conversions. Streaming stores are plain stores there.
#include <arm_neon.h>

#include "kernels/host/reduce.h"
#include "kernels/host/tables.h"

namespace tutti::kernels {
namespace {

struct Neon : BasicIsa<16> {
  TUTTI_INLINE static F decode_half(U16 codes) { return bits_as<F>(vcvt_f32_f16(bits_as<float16x4_t>(codes))); }
  // The instruction keeps a NaN's sign and payload: it is given the canonical NaN.
  TUTTI_INLINE static U16 encode_half(F value) {
    const F canonical = FloatOperations<Neon, float>::canonical(value);
    return bits_as<U16>(vcvt_f16_f32(bits_as<float32x4_t>(canonical)));
  }
};

}  // namespace

constinit const runtime::Kernels kNeonKernels = make_table<Neon>("neon");

}  // namespace tutti::kernels

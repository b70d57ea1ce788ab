// One constant table per instruction set; each is defined in the file isa_*.cc that is compiled for that set.
// Calling through a table that the CPU lacks is an illegal instruction: kernels.cc alone decides.
#pragma once

#include "src/runtime/reducer.h"

namespace tutti::kernels {

extern const runtime::Kernels kPlainKernels;
#if defined(__x86_64__)
extern const runtime::Kernels kAvx2Kernels;
extern const runtime::Kernels kAvx512Kernels;
#elif defined(__aarch64__)
extern const runtime::Kernels kNeonKernels;
#endif

}  // namespace tutti::kernels

// The reduction and copy kernels for host memory, one table per instruction set, chosen at run time for the CPU.
// All tables give the same bits for the same inputs. Thread-safe: the tables are constants, the functions have no
// state.
//
// What src/runtime/reducer.h leaves open is settled so:
// - prescale: the product is formed in the type of the factor and rounded to the element type; integers wrap.
// - postdivide is at least 1. Floats divide by it in float32 (float64) before the one rounding.
// - float8_e4m3 has no infinity and conversion does not saturate: beyond 464 (which still rounds to 448) it is NaN.
// - the canonical NaNs: kFloat16NaN and its kin in kernels/host/floats.h.
// - one input without prescale and with postdivide 1 is a copy: its bits pass unchanged, NaN payloads too (but a
//   boolean becomes 0 or 1).
#pragma once

#include <string_view>
#include <vector>

#include "src/runtime/reducer.h"

namespace tutti::kernels {

// The best table for this CPU, or the one that TUTTI_KERNELS names (avx512, avx2, neon, plain).
// Throws Error(invalid_argument) that lists the names valid on this CPU when it names another.
const runtime::Kernels& host_kernels();

// Every table that this CPU can run, best first; the last is "plain".
std::vector<const runtime::Kernels*> available_host_kernels();

}  // namespace tutti::kernels

// What the host executor needs of kernels: reduce several inputs to several outputs in one pass, and copy.
// kernels/host implements it; one table is chosen at start-up for the CPU at hand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/types.h"

namespace tutti::runtime {

struct ReduceInput {
  const std::byte* data = nullptr;
  bool prescale = false;  // multiply by `factor` and round to the element type before it is accumulated
  // The number's bits: float32 for 16- and 8-bit floats, which multiply in float32; else of the element type.
  std::uint64_t factor = 0;
};

struct ReduceOutput {
  std::byte* data = nullptr;
  bool streaming = false;  // will not be read soon: non-temporal stores may be used (followed by a store fence)
};

// out[j][i] = post(op over k, in list order, of in[k][i]) for every output j. Inputs are at least one. Data may be
// misaligned to any byte. An output may be equal to an input; any other overlap is not allowed.
// 16- and 8-bit floats accumulate in float32 across all inputs and are rounded once, to nearest even.
// A NaN result is stored as the type's one canonical NaN. min and max: a NaN operand wins, and -0 < +0.
// prescale and postdivide are for avg and premul_sum alone. A boolean that alone is reduced becomes 0 or 1.
struct ReduceArgs {
  std::span<const ReduceInput> in;
  std::span<const ReduceOutput> out;
  std::size_t count = 0;  // elements
  int postdivide = 1;     // the result is divided by this; integers toward zero
};

using ReduceFn = void (*)(const ReduceArgs& args);
using CopyFn = void (*)(std::span<const ReduceOutput> out, const std::byte* in, std::size_t bytes);

struct Kernels {
  std::string_view name;  // "avx512", "avx2", "neon", "plain"
  // [type][op]; null where can_reduce() says no.
  std::array<std::array<ReduceFn, kReduceOps>, kDataTypes> reduce{};
  CopyFn copy = nullptr;
};

}  // namespace tutti::runtime

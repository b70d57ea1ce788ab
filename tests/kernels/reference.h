// What every kernel must compute, written the slow and obvious way, from the definitions of the formats: tables of all
// values instead of bit tricks, one element at a time. It shares no code with kernels/host.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/types.h"

namespace reference {

// A 16- or 8-bit float format as the list of the values of its non-negative codes.
class Format {
 public:
  Format(int exponent_bits, int mantissa_bits, bool has_infinity, std::uint32_t nan);

  float decode(std::uint32_t code) const;
  std::uint32_t encode(float value) const;
  std::uint32_t codes() const { return 2 * sign_; }
  std::uint32_t overflow() const { return overflow_; }
  std::uint32_t nan() const { return nan_; }
  // The value of a code up to overflow(); that one counts as the next power of two or step.
  double value(std::uint32_t code) const { return values_[code]; }

 private:
  std::uint32_t sign_;      // the sign bit
  std::uint32_t overflow_;  // the first code that is not finite
  std::uint32_t nan_;
  bool has_infinity_;
  std::vector<double> values_;  // of the codes 0 .. overflow_
};

// float16, bfloat16, float8_e4m3 or float8_e5m2.
const Format& format_of(tutti::DataType type);

bool is_floating(tutti::DataType type);

struct Operand {
  std::uint64_t bits;  // the element, in the low bytes
  bool prescale;
  std::uint64_t factor;  // the number's bits: a float for 16- and 8-bit floats, else of the element type
};

// The bits of the result for one element.
std::uint64_t reduce(tutti::DataType type, tutti::ReduceOp op, const std::vector<Operand>& operands, int divisor);

}  // namespace reference

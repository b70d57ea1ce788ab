#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace reference {
namespace {

using tutti::DataType;
using tutti::ReduceOp;

template <class To, class From>
To bits_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
T least(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T greatest(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::max: return greatest(a, b);
    case ReduceOp::min: return least(a, b);
    default: break;
  }
  throw std::logic_error("no such operation on floats");
}

// Integers of `bits` bits are computed as mathematical integers that are wrapped after every step.
__int128 wrap(__int128 value, int bits, bool is_signed) {
  const __int128 modulus = static_cast<__int128>(1) << bits;
  value %= modulus;
  if (value < 0) value += modulus;
  return is_signed && value >= modulus / 2 ? value - modulus : value;
}

// Integers of up to 64 bits fit with their sums and smaller products; the bits of a product do not depend on signs.
__int128 reduce_two(ReduceOp op, __int128 a, __int128 b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return a + b;
    case ReduceOp::prod: return static_cast<__int128>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case ReduceOp::max: return a > b ? a : b;
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::bit_and: return a & b;
    case ReduceOp::bit_or: return a | b;
    case ReduceOp::bit_xor: return a ^ b;
  }
  throw std::logic_error("no such operation");
}

std::uint64_t reduce_integers(int bits, bool is_signed, ReduceOp op, const std::vector<Operand>& operands,
                              int divisor) {
  __int128 result = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    __int128 operand = wrap(operands[i].bits, bits, is_signed);
    if (operands[i].prescale) operand = wrap(reduce_two(ReduceOp::prod, operand, operands[i].factor), bits, is_signed);
    result = i == 0 ? operand : wrap(reduce_two(op, result, operand), bits, is_signed);
  }
  const auto low = static_cast<std::uint64_t>(result / divisor);
  return bits == 64 ? low : low & ((std::uint64_t{1} << bits) - 1);
}

std::uint64_t reduce_booleans(ReduceOp op, const std::vector<Operand>& operands) {
  std::size_t trues = 0;
  for (const Operand& operand : operands) trues += operand.bits != 0;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bit_or: return trues > 0;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::bit_and: return trues == operands.size();
    case ReduceOp::bit_xor: return trues % 2;
    default: throw std::logic_error("not an operation on booleans");
  }
}

// T is what is computed in; round goes to the element type and back.
template <class T, class Decode, class Round>
T reduce_floats(ReduceOp op, const std::vector<Operand>& operands, int divisor, Decode decode, Round round) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  T result{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    T operand = decode(operands[i].bits);
    if (operands[i].prescale) operand = round(operand * bits_to<T>(static_cast<Bits>(operands[i].factor)));
    result = i == 0 ? operand : combine(op, result, operand);
  }
  return divisor == 1 ? result : result / static_cast<T>(divisor);
}

std::uint64_t reduce_small(const Format& format, ReduceOp op, const std::vector<Operand>& operands, int divisor) {
  const auto decode = [&](std::uint64_t bits) { return format.decode(static_cast<std::uint32_t>(bits)); };
  const auto round = [&](float value) { return format.decode(format.encode(value)); };
  return format.encode(reduce_floats<float>(op, operands, divisor, decode, round));
}

}  // namespace

Format::Format(int exponent_bits, int mantissa_bits, bool has_infinity, std::uint32_t nan)
    : sign_(1u << (exponent_bits + mantissa_bits)), nan_(nan), has_infinity_(has_infinity) {
  const std::uint32_t mantissas = 1u << mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  overflow_ = has_infinity ? ((1u << exponent_bits) - 1) * mantissas : sign_ - 1;
  for (std::uint32_t code = 0; code <= overflow_; ++code) {
    const int exponent = static_cast<int>(code / mantissas);
    const double fraction = static_cast<double>(code % mantissas) / mantissas;
    values_.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
  }
}

float Format::decode(std::uint32_t code) const {
  const std::uint32_t magnitude = code & (sign_ - 1);
  double value = std::numeric_limits<double>::quiet_NaN();
  if (magnitude < overflow_)
    value = values_[magnitude];
  else if (magnitude == overflow_ && has_infinity_)
    value = std::numeric_limits<double>::infinity();
  return static_cast<float>((code & sign_) != 0 ? -value : value);
}

std::uint32_t Format::encode(float value) const {
  if (std::isnan(value)) return nan_;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint32_t code = overflow_;
  if (magnitude < values_.back()) {
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    const auto high = static_cast<std::uint32_t>(above - values_.begin());
    const double middle = (values_[high - 1] + values_[high]) / 2;
    code = magnitude > middle || (magnitude == middle && high % 2 == 0) ? high : high - 1;
  }
  if (code == overflow_ && !has_infinity_) return nan_;
  return std::signbit(value) ? code | sign_ : code;
}

const Format& format_of(DataType type) {
  static const Format half(5, 10, true, 0x7e00);
  static const Format bfloat(8, 7, true, 0x7fc0);
  static const Format e4m3(4, 3, false, 0x7f);
  static const Format e5m2(5, 2, true, 0x7e);
  switch (type) {
    case DataType::float16: return half;
    case DataType::bfloat16: return bfloat;
    case DataType::float8_e4m3: return e4m3;
    case DataType::float8_e5m2: return e5m2;
    default: throw std::logic_error("not a small float");
  }
}

bool is_floating(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
    case DataType::float32:
    case DataType::float64: return true;
    default: return false;
  }
}

std::uint64_t reduce(DataType type, ReduceOp op, const std::vector<Operand>& operands, int divisor) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case DataType::int8: return reduce_integers(8, true, op, operands, divisor);
    case DataType::uint8: return reduce_integers(8, false, op, operands, divisor);
    case DataType::int16: return reduce_integers(16, true, op, operands, divisor);
    case DataType::uint16: return reduce_integers(16, false, op, operands, divisor);
    case DataType::boolean: return reduce_booleans(op, operands);
    case DataType::int32: return reduce_integers(32, true, op, operands, divisor);
    case DataType::uint32: return reduce_integers(32, false, op, operands, divisor);
    case DataType::int64: return reduce_integers(64, true, op, operands, divisor);
    case DataType::uint64: return reduce_integers(64, false, op, operands, divisor);
    case DataType::float32: {
      const auto decode = [](std::uint64_t bits) { return bits_to<float>(static_cast<std::uint32_t>(bits)); };
      const auto result = reduce_floats<float>(op, operands, divisor, decode, same);
      return std::isnan(result) ? 0x7fc00000 : bits_to<std::uint32_t>(result);
    }
    case DataType::float64: {
      const auto decode = [](std::uint64_t bits) { return bits_to<double>(bits); };
      const auto result = reduce_floats<double>(op, operands, divisor, decode, same);
      return std::isnan(result) ? 0x7ff8000000000000 : bits_to<std::uint64_t>(result);
    }
    default: return reduce_small(format_of(type), op, operands, divisor);
  }
}

}  // namespace reference

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
    case ReduceOp::avg: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::max: return greatest(a, b);
    case ReduceOp::min: return least(a, b);
  }
  throw std::logic_error("no such operation");
}

// Integers of `bits` bits are computed as mathematical integers that are wrapped after every step.
__int128 wrap(__int128 value, int bits, bool is_signed) {
  const __int128 modulus = static_cast<__int128>(1) << bits;
  value %= modulus;
  if (value < 0) value += modulus;
  return is_signed && value >= modulus / 2 ? value - modulus : value;
}

std::uint64_t reduce_integers(int bits, bool is_signed, ReduceOp op, const std::vector<Operand>& operands,
                              int divisor) {
  __int128 result = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const __int128 operand = wrap(operands[i].bits, bits, is_signed);
    if (i == 0)
      result = operand;
    else if (op == ReduceOp::sum || op == ReduceOp::avg)
      result = wrap(result + operand, bits, is_signed);
    else if (op == ReduceOp::prod)
      result = wrap(static_cast<std::uint64_t>(result) * static_cast<std::uint64_t>(operand), bits, is_signed);
    else if (op == ReduceOp::max)
      result = result > operand ? result : operand;
    else
      result = result < operand ? result : operand;
  }
  const auto low = static_cast<std::uint64_t>(result / divisor);
  return bits == 64 ? low : low & ((std::uint64_t{1} << bits) - 1);
}

// T is what is computed in; round goes to the element type and back.
template <class T, class Decode, class Round>
T reduce_floats(ReduceOp op, const std::vector<Operand>& operands, T factor, int divisor, Decode decode, Round round) {
  T result{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    T operand = decode(operands[i].bits);
    if (operands[i].prescale) operand = round(operand * factor);
    result = i == 0 ? operand : combine(op, result, operand);
  }
  return divisor == 1 ? result : result / static_cast<T>(divisor);
}

std::uint64_t reduce_small(const Format& format, ReduceOp op, const std::vector<Operand>& operands, float factor,
                           int divisor) {
  const auto decode = [&](std::uint64_t bits) { return format.decode(static_cast<std::uint32_t>(bits)); };
  const auto round = [&](float value) { return format.decode(format.encode(value)); };
  return format.encode(reduce_floats<float>(op, operands, factor, divisor, decode, round));
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

bool is_floating(DataType type) { return type >= DataType::float16; }

std::uint64_t reduce(DataType type, ReduceOp op, const std::vector<Operand>& operands, double factor, int divisor) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case DataType::int8: return reduce_integers(8, true, op, operands, divisor);
    case DataType::uint8: return reduce_integers(8, false, op, operands, divisor);
    case DataType::int32: return reduce_integers(32, true, op, operands, divisor);
    case DataType::uint32: return reduce_integers(32, false, op, operands, divisor);
    case DataType::int64: return reduce_integers(64, true, op, operands, divisor);
    case DataType::uint64: return reduce_integers(64, false, op, operands, divisor);
    case DataType::float32: {
      const auto decode = [](std::uint64_t bits) { return bits_to<float>(static_cast<std::uint32_t>(bits)); };
      const auto result = reduce_floats<float>(op, operands, static_cast<float>(factor), divisor, decode, same);
      return std::isnan(result) ? 0x7fc00000 : bits_to<std::uint32_t>(result);
    }
    case DataType::float64: {
      const auto decode = [](std::uint64_t bits) { return bits_to<double>(bits); };
      const auto result = reduce_floats<double>(op, operands, factor, divisor, decode, same);
      return std::isnan(result) ? 0x7ff8000000000000 : bits_to<std::uint64_t>(result);
    }
    default: return reduce_small(format_of(type), op, operands, static_cast<float>(factor), divisor);
  }
}

}  // namespace reference

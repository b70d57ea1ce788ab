// Element types and reduction operators of every collective, in the C++ interface and inside the library.
//
//   tutti::DataType t = tutti::data_type_of<float>();        // DataType::float32
//   std::size_t bytes = count * tutti::size_of(t);
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti {

// Up to 11 the values are NCCL's ncclDataType_t, so that the C interface converts by a cast; it has no others.
enum class DataType : std::uint8_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,  // OCP FP8 E4M3: no infinity, one NaN pattern per sign
  float8_e5m2 = 11,  // OCP FP8 E5M2: IEEE-like, with infinities
  int16 = 12,
  uint16 = 13,
  boolean = 14,  // one byte: 0 is false, any other value true; results are 0 or 1
};
inline constexpr int kDataTypes = 15;

// Up to avg the values are NCCL's ncclRedOp_t. Integers wrap around. min and max return NaN if any operand is NaN.
// avg of integers is the wrapped sum divided by the number of ranks, rounded toward zero.
// premul_sum multiplies each rank's input by that rank's own Factor before it sums.
// Of booleans sum, max and bit_or are "or", prod, min and bit_and are "and", bit_xor is "exclusive or".
enum class ReduceOp : std::uint8_t {
  sum = 0,
  prod = 1,
  max = 2,
  min = 3,
  avg = 4,
  premul_sum = 5,
  bit_and = 6,
  bit_or = 7,
  bit_xor = 8,
};
inline constexpr int kReduceOps = 9;

// What a call asks for. Every algorithm implements one of these.
enum class Collective : std::uint8_t {
  all_reduce = 0,
  broadcast = 1,
  all_gather = 2,
  barrier = 3,
  reduce = 4,
  reduce_scatter = 5,
  all_to_all = 6,
  gather = 7,
  scatter = 8,
};
inline constexpr int kCollectives = 9;

// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  constexpr std::uint8_t bytes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1};
  return bytes[static_cast<std::size_t>(type)];
}

constexpr bool is_floating(DataType type) { return type >= DataType::float16 && type <= DataType::float8_e5m2; }

// Whether `op` reduces elements of `type`. Every other pair is refused at the call.
constexpr bool can_reduce(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
    case ReduceOp::max:
    case ReduceOp::min: return true;
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return type != DataType::boolean;
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor: return !is_floating(type);
  }
  return false;
}

// "sum, prod, max, min, bit_and": the operators that reduce elements of `type`.
std::string valid_ops(DataType type);

// Names as nccl-tests prints them, where it has one: "int8", "half", "float", "double", "bfloat16", "f8e4m3", "mulsum".
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);

// The reverse, which also takes the C++ spelling ("float32", "float8_e4m3", "premul_sum"); nothing for an unknown name.
std::optional<DataType> data_type_from_name(std::string_view name);
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

template <class T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return DataType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::float64;
  else if constexpr (std::is_same_v<T, bool>)
    return DataType::boolean;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? DataType::int8 : DataType::uint8;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? DataType::int16 : DataType::uint16;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? DataType::int32 : DataType::uint32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? DataType::int64 : DataType::uint64;
  else
    static_assert(sizeof(T) == 0, "no DataType for this C++ type: pass the DataType yourself");
}

// What ReduceOp::premul_sum multiplies a rank's input by: one number, held exactly. It is of the elements' type, or a
// float where those are 16- or 8-bit floats. There the product is formed in float and rounded to the element type,
// once, before it is summed; products of integers wrap around.
class Factor {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Factor(T number) : type_(data_type_of<T>()) {
    if constexpr (std::is_same_v<T, float>)
      bits_ = std::bit_cast<std::uint32_t>(number);
    else if constexpr (std::is_same_v<T, double>)
      bits_ = std::bit_cast<std::uint64_t>(number);
    else if constexpr (std::is_same_v<T, bool>)
      bits_ = number ? 1 : 0;
    else
      bits_ = static_cast<std::make_unsigned_t<T>>(number);
  }
  // An element as it lies in memory; a 16- or 8-bit float becomes the float of equal value.
  static Factor from_element(DataType type, const void* element);

  constexpr DataType type() const { return type_; }
  constexpr std::uint64_t bits() const { return bits_; }  // of a float in the lower half
  // Whether elements of `type` can be multiplied by it.
  constexpr bool suits(DataType type) const {
    const bool small = is_floating(type) && size_of(type) < size_of(DataType::float32);
    return type_ == (small ? DataType::float32 : type);
  }

  friend constexpr bool operator==(const Factor&, const Factor&) = default;

 private:
  DataType type_;
  std::uint64_t bits_ = 0;
};

}  // namespace tutti

// Element types and reduction operators of every collective, in the C++ interface and inside the library.
//
//   tutti::DataType t = tutti::data_type_of<float>();        // DataType::float32
//   std::size_t bytes = count * tutti::size_of(t);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace tutti {

// The values are NCCL's ncclDataType_t, so that the C interface converts by a cast.
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
};
inline constexpr int kDataTypes = 12;

// The values are NCCL's ncclRedOp_t. Integers wrap around. min and max return NaN if any operand is NaN.
// avg of integers is the wrapped sum divided by the number of ranks, rounded toward zero.
enum class ReduceOp : std::uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };
inline constexpr int kReduceOps = 5;

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
  constexpr std::uint8_t bytes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return bytes[static_cast<std::size_t>(type)];
}

// Names as nccl-tests prints them: "int8", "half", "float", "double", "bfloat16", "f8e4m3", ...
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);

// The reverse, which also takes the C++ spelling ("float32", "float16", "float8_e4m3"); nothing for an unknown name.
std::optional<DataType> data_type_from_name(std::string_view name);
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

template <class T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return DataType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::float64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? DataType::int8 : DataType::uint8;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? DataType::int32 : DataType::uint32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? DataType::int64 : DataType::uint64;
  else
    static_assert(sizeof(T) == 0, "no DataType for this C++ type: pass the DataType yourself");
}

}  // namespace tutti

#include "tutti/types.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tutti/error.h"

namespace tutti {
namespace {

struct TypeRow {
  std::string_view name;      // nccl-tests' spelling
  std::string_view cpp_name;  // the enumerator's
};
constexpr std::array<TypeRow, kDataTypes> kTypes{{{"int8", "int8"},
                                                  {"uint8", "uint8"},
                                                  {"int32", "int32"},
                                                  {"uint32", "uint32"},
                                                  {"int64", "int64"},
                                                  {"uint64", "uint64"},
                                                  {"half", "float16"},
                                                  {"float", "float32"},
                                                  {"double", "float64"},
                                                  {"bfloat16", "bfloat16"},
                                                  {"f8e4m3", "float8_e4m3"},
                                                  {"f8e5m2", "float8_e5m2"},
                                                  {"int16", "int16"},
                                                  {"uint16", "uint16"},
                                                  {"bool", "boolean"}}};
constexpr std::array<std::string_view, kReduceOps> kOps{"sum",    "prod",    "max",    "min",    "avg",
                                                        "mulsum", "bit_and", "bit_or", "bit_xor"};
constexpr std::array<std::string_view, kCollectives> kCollectiveNames{
    "all_reduce", "broadcast", "all_gather", "barrier", "reduce", "reduce_scatter", "all_to_all", "gather", "scatter"};

// A float of few bits: sign, exponent, mantissa.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

float decode(SmallFormat format, unsigned bits) {
  const unsigned field = bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1);
  const unsigned mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const unsigned last = (1u << format.exponent_bits) - 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  float magnitude = 0;
  if (field == last && format.has_infinity && mantissa == 0)
    magnitude = std::numeric_limits<float>::infinity();
  else if (field == last && (format.has_infinity || mantissa == (1u << format.mantissa_bits) - 1))
    magnitude = std::numeric_limits<float>::quiet_NaN();
  else if (field == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - format.mantissa_bits);
  else
    magnitude = std::ldexp(static_cast<float>(mantissa + (1u << format.mantissa_bits)),
                           static_cast<int>(field) - bias - format.mantissa_bits);
  return (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

template <class T>
T read(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

}  // namespace

Factor Factor::from_element(DataType type, const void* element) {
  switch (type) {
    case DataType::int8: return read<std::int8_t>(element);
    case DataType::uint8: return read<std::uint8_t>(element);
    case DataType::int16: return read<std::int16_t>(element);
    case DataType::uint16: return read<std::uint16_t>(element);
    case DataType::int32: return read<std::int32_t>(element);
    case DataType::uint32: return read<std::uint32_t>(element);
    case DataType::int64: return read<std::int64_t>(element);
    case DataType::uint64: return read<std::uint64_t>(element);
    case DataType::float32: return read<float>(element);
    case DataType::float64: return read<double>(element);
    case DataType::float16: return decode({5, 10, true}, read<std::uint16_t>(element));
    case DataType::bfloat16: return decode({8, 7, true}, read<std::uint16_t>(element));
    case DataType::float8_e4m3: return decode({4, 3, false}, read<std::uint8_t>(element));
    case DataType::float8_e5m2: return decode({5, 2, true}, read<std::uint8_t>(element));
    case DataType::boolean: return read<std::uint8_t>(element) != 0;
  }
  throw Error(ErrorCode::invalid_argument, "the factor's data type is " + std::to_string(static_cast<unsigned>(type)) +
                                               "; valid: 0 to " + std::to_string(kDataTypes - 1));
}

std::string valid_ops(DataType type) {
  std::string list;
  for (int op = 0; op < kReduceOps; ++op)
    if (can_reduce(type, static_cast<ReduceOp>(op)))
      list += (list.empty() ? "" : ", ") + std::string(name_of(static_cast<ReduceOp>(op)));
  return list;
}

std::string_view name_of(DataType type) { return kTypes[static_cast<std::size_t>(type)].name; }
std::string_view name_of(ReduceOp op) { return kOps[static_cast<std::size_t>(op)]; }
std::string_view name_of(Collective collective) { return kCollectiveNames[static_cast<std::size_t>(collective)]; }

std::optional<DataType> data_type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (name == kTypes[i].name || name == kTypes[i].cpp_name) return static_cast<DataType>(i);
  return std::nullopt;
}

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kOps.size(); ++i)
    if (name == kOps[i]) return static_cast<ReduceOp>(i);
  if (name == "premul_sum") return ReduceOp::premul_sum;
  return std::nullopt;
}

}  // namespace tutti

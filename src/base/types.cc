#include "tutti/types.h"

#include <array>

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
                                                  {"f8e5m2", "float8_e5m2"}}};
constexpr std::array<std::string_view, kReduceOps> kOps{"sum", "prod", "max", "min", "avg"};
constexpr std::array<std::string_view, kCollectives> kCollectiveNames{
    "all_reduce", "broadcast", "all_gather", "barrier", "reduce", "reduce_scatter", "all_to_all", "gather", "scatter"};

}  // namespace

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
  return std::nullopt;
}

}  // namespace tutti

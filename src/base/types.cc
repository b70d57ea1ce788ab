#include "tutti/types.h"

#include <array>

namespace tutti {
namespace {

struct TypeRow {
  std::string_view name;      // nccl-tests' spelling
  std::string_view cpp_name;  // the enumerator's
  std::size_t bytes;
};
constexpr std::array<TypeRow, kDataTypes> kTypes{{{"int8", "int8", 1},
                                                  {"uint8", "uint8", 1},
                                                  {"int32", "int32", 4},
                                                  {"uint32", "uint32", 4},
                                                  {"int64", "int64", 8},
                                                  {"uint64", "uint64", 8},
                                                  {"half", "float16", 2},
                                                  {"float", "float32", 4},
                                                  {"double", "float64", 8},
                                                  {"bfloat16", "bfloat16", 2},
                                                  {"f8e4m3", "float8_e4m3", 1},
                                                  {"f8e5m2", "float8_e5m2", 1}}};
constexpr std::array<std::string_view, kReduceOps> kOps{"sum", "prod", "max", "min", "avg"};
constexpr std::array<std::string_view, kCollectives> kCollectiveNames{"all_reduce", "broadcast", "all_gather",
                                                                      "barrier"};

}  // namespace

std::size_t size_of(DataType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }
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

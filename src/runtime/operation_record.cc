#include "src/runtime/operation_record.h"

namespace tutti::runtime {

std::string describe(const OperationRecord& record) {
  const std::string name = std::string(name_of(record.collective)) + " #" + std::to_string(record.sequence);
  const std::string size = " " + std::string(name_of(record.type)) + " x " + std::to_string(record.count);
  switch (record.collective) {
    case Collective::all_reduce: return name + size + " " + std::string(name_of(record.op));
    case Collective::broadcast: return name + size + " root " + std::to_string(record.root);
    case Collective::all_gather: return name + size;
    case Collective::barrier: return name;
  }
  return name;
}

}  // namespace tutti::runtime

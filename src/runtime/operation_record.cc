#include "src/runtime/operation_record.h"

#include "src/schedule/collectives.h"

namespace tutti::runtime {

std::string describe(const OperationRecord& record) {
  if (record.exchange != 0) return "exchange #" + std::to_string(record.exchange);
  const std::string name = std::string(name_of(record.collective)) + " #" + std::to_string(record.sequence);
  const std::string size = " " + std::string(name_of(record.type)) + " x " + std::to_string(record.count);
  if (record.collective == Collective::barrier) return name;
  const schedule::CollectiveTraits& traits = schedule::traits_of(record.collective);
  return name + size + (traits.reduces ? " " + std::string(name_of(record.op)) : "") +
         (traits.rooted() ? " root " + std::to_string(record.root) : "");
}

}  // namespace tutti::runtime

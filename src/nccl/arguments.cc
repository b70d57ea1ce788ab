#include "src/nccl/arguments.h"

#include <string>

namespace tutti::nccl {

DataType data_type(const Member& member, ncclDataType_t type) {
  const auto number = static_cast<unsigned>(type);
  if (number >= ncclNumTypes)
    member.refuse("the datatype is " + std::to_string(static_cast<int>(type)) +
                  "; valid: 0 (ncclInt8) to 11 (ncclFloat8e5m2)");
  return static_cast<DataType>(number);
}

void set_op(Member& member, CollectiveCall& call, ncclRedOp_t op) {
  const auto number = static_cast<unsigned>(op);
  if (number < ncclNumOps) {
    call.op = static_cast<ReduceOp>(number);
    return;
  }
  const std::optional<Scaling> made = member.with_books([&](const Member::Books& books) -> std::optional<Scaling> {
    const auto known = books.scalings.find(op);
    return known == books.scalings.end() ? std::nullopt : std::optional(known->second);
  });
  if (!made)
    member.refuse("the op is " + std::to_string(static_cast<int>(op)) +
                  "; valid: 0 (ncclSum) to 4 (ncclAvg), and what ncclRedOpCreatePreMulSum made for this communicator");
  if (made->type != call.type)
    member.refuse("the op was made for datatype " + std::string(name_of(made->type)) + ", but the call's is " +
                  std::string(name_of(call.type)));
  call.op = ReduceOp::premul_sum;
  call.factor = made->source != nullptr ? Factor::from_element(made->type, made->source) : made->factor;
}

int rank_within(const Member& member, const char* name, int rank) {
  if (rank < 0 || rank >= member.size())
    member.refuse("the " + std::string(name) + " is " + std::to_string(rank) + "; valid: 0 to " +
                  std::to_string(member.size() - 1));
  return rank;
}

void check_buffer(const Member& member, const char* name, const void* buffer, std::size_t count) {
  if (buffer == nullptr && count > 0)
    member.refuse(std::string(name) + " is NULL but the count is " + std::to_string(count) +
                  "; a buffer may be NULL when the count is 0, and where this rank does not use it");
}

}  // namespace tutti::nccl

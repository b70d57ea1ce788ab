// Checks of single arguments. Each throws Error(invalid_argument) that names the rank, the value and the valid ones.
#pragma once

#include <cstddef>

#include "nccl.h"
#include "src/nccl/member.h"
#include "tutti/types.h"

namespace tutti::nccl {

DataType data_type(const Member& member, ncclDataType_t type);
// Sets the call's op, and factor: one of NCCL's own five, or one that was made for this communicator and the call's
// type.
void set_op(Member& member, CollectiveCall& call, ncclRedOp_t op);
int rank_within(const Member& member, const char* name, int rank);
// A buffer may be null when there is nothing in it.
void check_buffer(const Member& member, const char* name, const void* buffer, std::size_t count);

}  // namespace tutti::nccl

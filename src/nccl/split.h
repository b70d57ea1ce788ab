// ncclCommGrow, which later.cc offers; split and shrink are in split.cc itself.
#pragma once

#include "nccl.h"
#include "src/nccl/guarded.h"

namespace tutti::nccl {

// entry.comm: null for a rank that joins.
ncclResult_t grow_call(const Entry& entry, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                       const ncclConfig_t* config);

}  // namespace tutti::nccl

// Windows, for those who use them.
#pragma once

#include "nccl.h"
#include "src/nccl/member.h"

namespace tutti::nccl {

// What the window was registered with; throws Error(invalid_argument) when it is none of this communicator.
void* window_address(Member& member, ncclWindow_t window);

}  // namespace tutti::nccl

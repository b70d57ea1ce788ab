// What a call of the C interface answers, and what ncclGetLastError says of it.
#pragma once

#include <string>

#include "nccl.h"
#include "tutti/error.h"

namespace tutti::nccl {

ncclResult_t result_of(ErrorCode code);

// A fixed text for each result, also for numbers that are none.
const char* describe(ncclResult_t result);

// What the calling thread's calls failed of last; empty when none did.
const std::string& last_error_of_thread();
void set_last_error_of_thread(const std::string& message);

// Throw Error(invalid_argument) and Error(invalid_usage).
[[noreturn]] void refuse_argument(const std::string& message);
[[noreturn]] void refuse_usage(const std::string& message);

// Refuses a null pointer by its name.
void require(const void* pointer, const char* name);

}  // namespace tutti::nccl

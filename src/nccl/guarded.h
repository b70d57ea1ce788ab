// The border: no exception leaves a function of the C interface.
#pragma once

#include <type_traits>

#include "nccl.h"

namespace tutti::nccl {

// The function that was called, and on what (null: on no communicator, or none yet).
struct Entry {
  const char* function;
  ncclComm_t comm = nullptr;
};

// In a handler: turns the exception into a result, and its text into what ncclGetLastError says, in this thread and on
// the communicator.
ncclResult_t failed(const Entry& entry) noexcept;

// Runs the body, which returns a result or nothing (success).
template <class Body>
ncclResult_t guarded(const Entry& entry, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return ncclSuccess;
    } else {
      return body();
    }
  } catch (...) {
    return failed(entry);
  }
}

}  // namespace tutti::nccl

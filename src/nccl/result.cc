#include "src/nccl/result.h"

#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

thread_local std::string last_error;

}  // namespace

ncclResult_t result_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return ncclInvalidArgument;
    case ErrorCode::invalid_usage: return ncclInvalidUsage;
    case ErrorCode::system_error: return ncclSystemError;
    case ErrorCode::remote_error:
    case ErrorCode::timeout:
    case ErrorCode::aborted: return ncclRemoteError;
    case ErrorCode::internal_error: return ncclInternalError;
  }
  return ncclInternalError;
}

const char* describe(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "success";
    case ncclUnhandledCudaError: return "a CUDA call failed; ncclGetLastError says which";
    case ncclSystemError: return "the operating system refused something; ncclGetLastError says what";
    case ncclInternalError: return "a fault of the library; ncclGetLastError says which";
    case ncclInvalidArgument: return "invalid argument; ncclGetLastError says which, and what is valid";
    case ncclInvalidUsage: return "invalid usage; ncclGetLastError says why";
    case ncclRemoteError: return "another rank failed, left or did not come in time; ncclGetLastError says which";
    case ncclInProgress: return "in progress";
    case ncclNumResults: break;
  }
  return "no result of this library";
}

const std::string& last_error_of_thread() { return last_error; }
void set_last_error_of_thread(const std::string& message) { last_error = message; }

void refuse_argument(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }
void refuse_usage(const std::string& message) { throw Error(ErrorCode::invalid_usage, message); }

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) refuse_argument(std::string(name) + " is NULL; it must point somewhere");
}

}  // namespace tutti::nccl

extern "C" {

const char* pncclGetErrorString(ncclResult_t result) { return tutti::nccl::describe(result); }
TUTTI_NCCL_TWIN(ncclGetErrorString);

}  // extern "C"

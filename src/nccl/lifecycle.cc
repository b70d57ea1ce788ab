// The end of a communicator, and questions to it.
#include <chrono>
#include <thread>

#include "src/nccl/group.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

// What was called completes first. A connection that is still being made is waited for: it has its own deadline.
void destroy(ncclComm_t comm) {
  Member& member = take(comm);
  while (member.busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  member.complete();
  release(comm);
}

// A job in another thread keeps its own hold on the member and ends by itself.
void abort(ncclComm_t comm) {
  Member& member = take(comm);
  member.abort("ncclCommAbort was called");
  release(comm);
}

template <class T, class Ask>
ncclResult_t answer(const char* function, ncclComm_t comm, T* out, const char* name, Ask ask) {
  return guarded({function, comm}, [&] {
    const Use use(comm);
    require(out, name);
    *out = ask(*use);
  });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

const char* pncclGetLastError(ncclComm_t comm) {
  thread_local std::string shown;
  guarded({"ncclGetLastError"}, [&] {
    shown = last_error_of_thread();
    if (is_alive(comm)) shown = Use(comm)->last_error();
  });
  return shown.c_str();
}
TUTTI_NCCL_TWIN(ncclGetLastError);

void pncclResetDebugInit() {}
void ncclResetDebugInit() __attribute__((weak, alias("pncclResetDebugInit")));  // naming it for TWIN would warn

// Not in the header; NCCL's library has it.
void ncclResetDebugInitInternal() {}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return guarded_in_group({"ncclCommFinalize", comm}, [&] {
    {
      const Use use(comm);
      use->quiet();  // throws when it cannot be
    }
    submit_ending([comm] { Use(comm)->finalize(); });
    return group_of_thread().depth > 0 ? ncclSuccess : Use(comm)->poll();
  });
}
TUTTI_NCCL_TWIN(ncclCommFinalize);

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guarded_in_group({"ncclCommDestroy", comm}, [&] {
    static_cast<void>(Use(comm));  // throws for one that is gone
    submit_ending([comm] { destroy(comm); });
  });
}
TUTTI_NCCL_TWIN(ncclCommDestroy);

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guarded({"ncclCommAbort", comm}, [&] { abort(comm); });
}
TUTTI_NCCL_TWIN(ncclCommAbort);

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return guarded({"ncclCommRevoke", comm}, [&] {
    const Use use(comm);
    if (revokeFlags != NCCL_REVOKE_DEFAULT)
      use->refuse("revokeFlags is " + std::to_string(revokeFlags) + "; valid: 0 (NCCL_REVOKE_DEFAULT)");
    use->revoke();
  });
}
TUTTI_NCCL_TWIN(ncclCommRevoke);

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return answer("ncclCommGetAsyncError", comm, asyncError, "asyncError", [](Member& member) { return member.poll(); });
}
TUTTI_NCCL_TWIN(ncclCommGetAsyncError);

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return answer("ncclCommCount", comm, count, "count", [](const Member& member) { return member.size(); });
}
TUTTI_NCCL_TWIN(ncclCommCount);

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer("ncclCommCuDevice", comm, device, "device", [](const Member& member) { return member.device(); });
}
TUTTI_NCCL_TWIN(ncclCommCuDevice);

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return answer("ncclCommUserRank", comm, rank, "rank", [](const Member& member) { return member.rank(); });
}
TUTTI_NCCL_TWIN(ncclCommUserRank);

}  // extern "C"

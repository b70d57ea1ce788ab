// Functions of NCCL versions after 2.28.9 (include/nccl_later.h).
#include "nccl_later.h"

#include "src/nccl/handle.h"
#include "src/nccl/registration.h"
#include "src/nccl/result.h"
#include "src/nccl/split.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

ncclResult_t refuse_one_sided(const char* function, ncclComm_t comm) {
  return guarded({function, comm}, [&] {
    const Use use(comm);
    use->refuse_usage(
        "one-sided communication needs a network that does it, and none is supported; use ncclSend and "
        "ncclRecv");
  });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  const ncclResult_t checked = guarded({"ncclCommGetUniqueId", comm}, [&] { Use(comm)->quiet(); });
  return checked != ncclSuccess ? checked : pncclGetUniqueId(uniqueId);
}
TUTTI_NCCL_TWIN(ncclCommGetUniqueId);

ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return grow_call({"ncclCommGrow", comm}, nRanks, uniqueId, rank, newcomm, config);
}
TUTTI_NCCL_TWIN(ncclCommGrow);

// A rank's memory is a few megabytes, which idle ranks do not touch: there is nothing worth freeing for a while.
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags) {
  return guarded({"ncclCommSuspend", comm}, [&] {
    const Use use(comm);
    if (flags != NCCL_SUSPEND_MEM) use->refuse("flags is " + std::to_string(flags) + "; valid: 1 (NCCL_SUSPEND_MEM)");
    use->usable();
  });
}
TUTTI_NCCL_TWIN(ncclCommSuspend);

ncclResult_t pncclCommResume(ncclComm_t comm) {
  return guarded({"ncclCommResume", comm}, [&] { Use(comm)->usable(); });
}
TUTTI_NCCL_TWIN(ncclCommResume);

// All of it is GPU memory that is asked for, and there is none.
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return guarded({"ncclCommMemStats", comm}, [&] {
    const Use use(comm);
    require(value, "value");
    if (static_cast<unsigned>(stat) > ncclStatGpuMemTotal)
      use->refuse("the statistic is " + std::to_string(static_cast<int>(stat)) +
                  "; valid: 0 (ncclStatGpuMemSuspend) to 3 (ncclStatGpuMemTotal)");
    *value = 0;
  });
}
TUTTI_NCCL_TWIN(ncclCommMemStats);

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return guarded({"ncclWinGetUserPtr", comm}, [&] {
    const Use use(comm);
    require(outUserPtr, "outUserPtr");
    *outUserPtr = window_address(*use, win);
  });
}
TUTTI_NCCL_TWIN(ncclWinGetUserPtr);

ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int,
                            ncclComm_t comm, cudaStream_t) {
  return refuse_one_sided("ncclPutSignal", comm);
}
TUTTI_NCCL_TWIN(ncclPutSignal);

ncclResult_t pncclSignal(int, int, int, unsigned int, ncclComm_t comm, cudaStream_t) {
  return refuse_one_sided("ncclSignal", comm);
}
TUTTI_NCCL_TWIN(ncclSignal);

ncclResult_t pncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t comm, cudaStream_t) {
  return refuse_one_sided("ncclWaitSignal", comm);
}
TUTTI_NCCL_TWIN(ncclWaitSignal);

}  // extern "C"

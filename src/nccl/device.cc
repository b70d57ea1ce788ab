// The host functions of the device interface (include/nccl_device.h).
#include "nccl_device.h"

#include "src/nccl/guarded.h"
#include "src/nccl/handle.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

ncclResult_t refuse_device(const char* function, ncclComm_t comm = nullptr) {
  return guarded({function, comm}, [] {
    refuse_usage(
        "there is no device interface: kernels cannot communicate by themselves; use the collectives of nccl.h");
  });
}

ncclTeam_t team(const char* function, ncclComm_t comm, ncclTeam_t (*make)(const Member&)) {
  ncclTeam_t result{0, 0, 0};
  guarded({function, comm}, [&] { result = make(*Use(comm)); });
  return result;
}

ncclTeam_t world(const Member& member) { return {member.size(), member.rank(), 1}; }

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const*, ncclDevComm_t*) {
  return refuse_device("ncclDevCommCreate", comm);
}
TUTTI_NCCL_TWIN(ncclDevCommCreate);

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, ncclDevComm_t const*) {
  return refuse_device("ncclDevCommDestroy", comm);
}
TUTTI_NCCL_TWIN(ncclDevCommDestroy);

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t, int, ncclGinBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return refuse_device("ncclGinBarrierCreateRequirement", comm);
}
TUTTI_NCCL_TWIN(ncclGinBarrierCreateRequirement);

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return refuse_device("ncclLsaBarrierCreateRequirement");
}
TUTTI_NCCL_TWIN(ncclLsaBarrierCreateRequirement);

ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*) {
  return refuse_device("ncclLLA2ACreateRequirement");
}
TUTTI_NCCL_TWIN(ncclLLA2ACreateRequirement);

int pncclLLA2ACalcSlots(int, int) { return 0; }
TUTTI_NCCL_TWIN(ncclLLA2ACalcSlots);

ncclTeam_t pncclTeamWorld(ncclComm_t comm) { return team("ncclTeamWorld", comm, world); }
TUTTI_NCCL_TWIN(ncclTeamWorld);

ncclTeam_t pncclTeamLsa(ncclComm_t comm) {
  return team("ncclTeamLsa", comm, [](const Member&) { return ncclTeam_t{1, 0, 1}; });
}
TUTTI_NCCL_TWIN(ncclTeamLsa);

ncclTeam_t pncclTeamRail(ncclComm_t comm) { return team("ncclTeamRail", comm, world); }
TUTTI_NCCL_TWIN(ncclTeamRail);

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t of, int rank) {
  int result = -1;
  guarded({"ncclTeamRankToWorld", comm}, [&] { result = Use(comm)->rank() + (rank - of.rank) * of.stride; });
  return result;
}
TUTTI_NCCL_TWIN(ncclTeamRankToWorld);

// This rank is alone in it, as its 0.
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t of, int rank) {
  int result = -1;
  guarded({"ncclTeamRankToLsa", comm}, [&] {
    static_cast<void>(Use(comm));
    result = (rank - of.rank) * of.stride;
  });
  return result;
}
TUTTI_NCCL_TWIN(ncclTeamRankToLsa);

}  // extern "C"

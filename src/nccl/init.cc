// Ways into a communicator that start from nothing.
#include <algorithm>
#include <cstring>
#include <set>

#include "src/nccl/environment.h"
#include "src/nccl/group.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"
#include "tutti/unique_id.h"

namespace tutti::nccl {
namespace {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

void check_rank(int rank, int ranks) {
  if (ranks < 1) refuse_argument("nranks is " + std::to_string(ranks) + "; valid: 1 or more");
  if (rank < 0 || rank >= ranks)
    refuse_argument("rank is " + std::to_string(rank) + "; valid: 0 to " + std::to_string(ranks - 1) + " with nranks " +
                    std::to_string(ranks));
}

ncclResult_t init(const char* function, ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  const Entry entry{function};
  return guarded_in_group(entry, [&] {
    require(out, "comm");
    *out = nullptr;
    check_rank(rank, ranks);
    const Settings settings = apply_config(settings_from_environment(), config);
    UniqueId bytes;
    std::memcpy(bytes.bytes.data(), id.internal, sizeof id.internal);
    return submit(Job{entry, nullptr, std::make_shared<Member>(settings), out,
                      [bytes, rank, ranks, options = settings.config] {
                        return std::optional(Communicator::connect(bytes, rank, ranks, options));
                      },
                      settings.blocking});
  });
}

void check_devices(const int* devices, int count) {
  std::set<int> seen;
  for (int k = 0; devices != nullptr && k < count; ++k) {
    if (devices[k] < 0)
      refuse_argument("devlist[" + std::to_string(k) + "] is " + std::to_string(devices[k]) + "; valid: 0 or more");
    if (!seen.insert(devices[k]).second)
      refuse_usage("devlist names device " + std::to_string(devices[k]) + " twice; each rank has its own");
  }
}

void init_all(ncclComm_t* comms, int count, const int* devices) {
  require(comms, "comm");
  if (count < 1) refuse_argument("ndev is " + std::to_string(count) + "; valid: 1 or more");
  check_devices(devices, count);
  std::fill_n(comms, count, nullptr);
  const Settings settings = settings_from_environment();
  std::vector<Communicator> ranks = Communicator::connect_threads(count, settings.config);
  for (int k = 0; k < count; ++k) {
    auto member = std::make_shared<Member>(settings, devices != nullptr ? devices[k] : k);
    member->adopt(std::move(ranks[static_cast<std::size_t>(k)]));
    comms[k] = make_handle(std::move(member));
  }
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  return guarded({"ncclGetVersion"}, [&] {
    require(version, "version");
    *version = NCCL_VERSION_CODE;
  });
}
TUTTI_NCCL_TWIN(ncclGetVersion);

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guarded({"ncclGetUniqueId"}, [&] {
    require(uniqueId, "uniqueId");
    check_environment();
    const tutti::UniqueId id = tutti::UniqueId::create();
    std::memcpy(uniqueId->internal, id.bytes.data(), sizeof uniqueId->internal);
  });
}
TUTTI_NCCL_TWIN(ncclGetUniqueId);

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return init("ncclCommInitRank", comm, nranks, commId, rank, nullptr);
}
TUTTI_NCCL_TWIN(ncclCommInitRank);

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config) {
  return init("ncclCommInitRankConfig", comm, nranks, commId, rank, config);
}
TUTTI_NCCL_TWIN(ncclCommInitRankConfig);

// One id is enough: its maker meets any number of ranks at once.
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                       ncclConfig_t* config) {
  const char* const function = "ncclCommInitRankScalable";
  const ncclResult_t checked = guarded_in_group({function}, [&] {
    require(newcomm, "newcomm");
    require(commIds, "commIds");
    check_rank(myrank, nranks);
    if (nId < 1 || nId > nranks)
      refuse_argument("nId is " + std::to_string(nId) + "; valid: 1 to nranks, which is " + std::to_string(nranks));
  });
  return checked != ncclSuccess ? checked : init(function, newcomm, nranks, commIds[0], myrank, config);
}
TUTTI_NCCL_TWIN(ncclCommInitRankScalable);

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guarded_in_group({"ncclCommInitAll"}, [&] { init_all(comm, ndev, devlist); });
}
TUTTI_NCCL_TWIN(ncclCommInitAll);

}  // extern "C"

// ncclConfig_t of this and other versions, and the environment.
#include <cstddef>
#include <cstring>

#include "nccl_later.h"
#include "tests/nccl/ranks.h"

namespace {

ncclResult_t init_with(ncclConfig_t* config) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
  CHECK((comm == nullptr) == (result != ncclSuccess && result != ncclInProgress));
  if (result == ncclInProgress) CHECK(poll(comm) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  return result;
}

ncclConfig_t with(int ncclConfig_t::*field, int value) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.*field = value;
  return config;
}

void check_refused(ncclConfig_t config, const std::string& words) {
  CHECK(init_with(&config) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains(words));
}

}  // namespace

TEST_CASE("a configuration's fields are checked by name") {
  struct Field {
    int ncclConfig_t::*member;
    int wrong;
    const char* words;
  };
  const Field fields[] = {
      {&ncclConfig_t::blocking, 2, "blocking is 2; valid: 0 to 1"},
      {&ncclConfig_t::cgaClusterSize, 9, "cgaClusterSize is 9; valid: 0 to 8"},
      {&ncclConfig_t::minCTAs, 0, "minCTAs is 0; valid: 1 or more"},
      {&ncclConfig_t::maxCTAs, -1, "maxCTAs is -1"},
      {&ncclConfig_t::splitShare, 2, "splitShare is 2"},
      {&ncclConfig_t::trafficClass, -7, "trafficClass is -7"},
      {&ncclConfig_t::collnetEnable, 2, "collnetEnable is 2"},
      {&ncclConfig_t::CTAPolicy, 4, "CTAPolicy is 4"},
      {&ncclConfig_t::shrinkShare, -1, "shrinkShare is -1"},
      {&ncclConfig_t::nvlsCTAs, 0, "nvlsCTAs is 0"},
      {&ncclConfig_t::nChannelsPerNetPeer, 0, "nChannelsPerNetPeer is 0"},
      {&ncclConfig_t::nvlinkCentricSched, 3, "nvlinkCentricSched is 3"},
  };
  for (const Field& field : fields) {
    check_refused(with(field.member, field.wrong), field.words);
    ncclConfig_t right = with(field.member, 1);
    CHECK(init_with(&right) == ncclSuccess);
  }
  ncclConfig_t config = with(&ncclConfig_t::minCTAs, 8);
  config.maxCTAs = 4;
  check_refused(config, "minCTAs is 8 and its maxCTAs only 4");
  config = NCCL_CONFIG_INITIALIZER;
  config.netName = "IB";
  check_refused(config, "netName is 'IB'; valid: Socket");
  config.netName = "socket";
  CHECK(init_with(&config) == ncclSuccess);
}

TEST_CASE("a configuration that was not initialised is refused") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  check_refused(config, "NCCL_CONFIG_INITIALIZER");
  config = NCCL_CONFIG_INITIALIZER;
  config.size = 3;
  check_refused(config, "size is 3");
}

TEST_CASE("configurations of other versions are read as far as they go") {
  // 2.14 had the head and `blocking`; what lies behind belongs to somebody else.
  ncclConfig_t old;
  std::memset(&old, 0x5a, sizeof old);
  old.size = offsetof(ncclConfig_t, blocking) + sizeof(int);
  old.magic = 0xcafebeef;
  old.version = NCCL_VERSION(2, 14, 3);
  old.blocking = 1;
  CHECK(init_with(&old) == ncclSuccess);
  old.blocking = 5;
  CHECK(init_with(&old) == ncclInvalidArgument);
  // A field younger than the version that was asked for does not count.
  ncclConfig_t mixed = with(&ncclConfig_t::nvlsCTAs, -9);
  mixed.version = NCCL_VERSION(2, 26, 2);
  CHECK(init_with(&mixed) == ncclSuccess);
  // 2.30's has more at the end.
  struct Later {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int more[4] = {-1, -1, -1, -1};
  } later;
  later.known.size = sizeof later;
  later.known.version = NCCL_VERSION(2, 30, 7);
  CHECK(init_with(&later.known) == ncclSuccess);
}

TEST_CASE("a communicator's name is in its messages, and children inherit the configuration") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "gradients";
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr, child = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  REQUIRE(ncclCommSplit(comm, 0, 0, &child, nullptr) == ncclSuccess);
  for (ncclComm_t one : {comm, child}) {
    CHECK(ncclBcast(nullptr, 1, ncclInt8, 3, one, nullptr) == ncclInvalidArgument);
    CHECK_THAT(ncclGetLastError(one), Catch::Contains("rank 0 of 1 of 'gradients'"));
    CHECK(ncclCommDestroy(one) == ncclSuccess);
  }
}

TEST_CASE("variables of NCCL that mean something here are understood") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const auto outcome = [&](const char* name, const char* value) {
    const Variable variable(name, value);
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitAll(&comm, 1, nullptr);
    ncclCommDestroy(comm);
    return result;
  };
  for (const char* value : {"Ring", "tree", "RING,Tree", "^tree", "^NVLS,collnetdirect", " ring "})
    CHECK(outcome("NCCL_ALGO", value) == ncclSuccess);
  for (const char* value : {"rin", "Ringg", "ring,", "nvls", "ring;allreduce:tree", "^foo", "\xff"}) {
    CHECK(outcome("NCCL_ALGO", value) == ncclInvalidArgument);
    CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("NCCL_ALGO"));
  }
  for (const char* value : {"LL", "^LL128", "simple,ll"}) CHECK(outcome("NCCL_PROTO", value) == ncclSuccess);
  CHECK(outcome("NCCL_PROTO", "LL64") == ncclInvalidArgument);
  CHECK(outcome("NCCL_DEBUG", "info") == ncclSuccess);
  CHECK(outcome("NCCL_DEBUG", "xyz") == ncclInvalidArgument);
  CHECK(outcome("NCCL_SHM_DISABLE", "1") == ncclSuccess);
  CHECK(outcome("NCCL_SHM_DISABLE", "yes") == ncclInvalidArgument);
  CHECK(outcome("NCCL_NET", "socket") == ncclSuccess);
  CHECK(outcome("NCCL_NET", "IB") == ncclInvalidArgument);
  CHECK(outcome("NCCL_COMM_ID", "localhost:5000") == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("localhost:5000"));
  CHECK(outcome("TUTTI_TIMEOUT", "0") == ncclInvalidArgument);

  const Variable wins("NCCL_COMM_BLOCKING", "1");
  config.blocking = 0;
  CHECK(init_with(&config) == ncclSuccess);
}

TEST_CASE("parameters can be asked for") {
  const char* value = nullptr;
  const char** keys = nullptr;
  int count = 0, length = -1;
  REQUIRE(ncclParamGetAllParameterKeys(&keys, &count) == ncclSuccess);
  REQUIRE(count > 5);
  for (int k = 0; k < count; ++k) {
    REQUIRE(ncclParamGetParameter(keys[k], &value, &length) == ncclSuccess);
    CHECK(static_cast<int>(std::strlen(value)) == length);
  }
  ncclParamHandle_t handle = nullptr;
  CHECK(ncclParamBind(&handle, "NCCL_NONSENSE") == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("NCCL_ALGO"));
  REQUIRE(ncclParamBind(&handle, "NCCL_P2P_DISABLE") == ncclSuccess);
  int32_t number = 0;
  CHECK(ncclParamGetI32(handle, &number) == ncclInvalidArgument);  // not set
  CHECK(ncclParamGetI32(nullptr, &number) == ncclInvalidArgument);
  CHECK(ncclParamGetStr(handle, &value) == ncclSuccess);
  CHECK(std::string(value).empty());
}

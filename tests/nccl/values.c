/* Prints every value, size and offset of nccl.h: compiled with Tutti's header and with another they must say the same.
 */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(x) printf(#x " %lld\n", (long long)(x))
#define TEXT(x) printf(#x " \"%s\"\n", x)
#define SIZE(t)                                             \
  printf("sizeof(" #t ") %zu, aligned to %zu\n", sizeof(t), \
         offsetof(                                          \
             struct {                                       \
               char c;                                      \
               t m;                                         \
             },                                             \
             m))
#define FIELD(t, f) printf(#t "." #f " at %zu, %zu bytes\n", offsetof(t, f), sizeof(((t*)0)->f))

static void constants(void) {
  VALUE(NCCL_MAJOR);
  VALUE(NCCL_MINOR);
  VALUE(NCCL_PATCH);
  VALUE(NCCL_VERSION_CODE);
  TEXT(NCCL_SUFFIX);
  VALUE(NCCL_VERSION(2, 8, 4));
  VALUE(NCCL_VERSION(2, 9, 6));
  VALUE(NCCL_VERSION(2, 28, 9));
  VALUE(NCCL_VERSION(3, 1, 2));
  VALUE(NCCL_COMM_NULL == 0);
  VALUE(NCCL_UNIQUE_ID_BYTES);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_CONFIG_UNDEF_PTR == 0);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_UNDEF_FLOAT * 1000);
  VALUE(sizeof(NCCL_UNDEF_FLOAT));
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
}

static void enumerations(void) {
  VALUE(ncclSuccess);
  VALUE(ncclUnhandledCudaError);
  VALUE(ncclSystemError);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument);
  VALUE(ncclInvalidUsage);
  VALUE(ncclRemoteError);
  VALUE(ncclInProgress);
  VALUE(ncclNumResults);
  VALUE(ncclNumOps_dummy);
  VALUE(ncclSum);
  VALUE(ncclProd);
  VALUE(ncclMax);
  VALUE(ncclMin);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclInt8);
  VALUE(ncclChar);
  VALUE(ncclUint8);
  VALUE(ncclInt32);
  VALUE(ncclInt);
  VALUE(ncclUint32);
  VALUE(ncclInt64);
  VALUE(ncclUint64);
  VALUE(ncclFloat16);
  VALUE(ncclHalf);
  VALUE(ncclFloat32);
  VALUE(ncclFloat);
  VALUE(ncclFloat64);
  VALUE(ncclDouble);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e4m3);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
}

static void layouts(void) {
  SIZE(ncclResult_t);
  SIZE(ncclRedOp_t);
  SIZE(ncclRedOp_dummy_t);
  SIZE(ncclDataType_t);
  SIZE(ncclScalarResidence_t);
  SIZE(ncclComm_t);
  SIZE(ncclWindow_t);
  SIZE(cudaStream_t);
  SIZE(ncclUniqueId);
  FIELD(ncclUniqueId, internal);
  SIZE(ncclConfig_t);
  SIZE(struct ncclConfig_v22800);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  SIZE(ncclSimInfo_t);
  SIZE(struct ncclSimInfo_v22200);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);
}

static void initializers(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  VALUE(config.size);
  VALUE(config.magic);
  VALUE(config.version);
  VALUE(config.blocking);
  VALUE(config.cgaClusterSize);
  VALUE(config.minCTAs);
  VALUE(config.maxCTAs);
  VALUE(config.netName == 0);
  VALUE(config.splitShare);
  VALUE(config.trafficClass);
  VALUE(config.commName == 0);
  VALUE(config.collnetEnable);
  VALUE(config.CTAPolicy);
  VALUE(config.shrinkShare);
  VALUE(config.nvlsCTAs);
  VALUE(config.nChannelsPerNetPeer);
  VALUE(config.nvlinkCentricSched);
  VALUE(info.size);
  VALUE(info.magic);
  VALUE(info.version);
  VALUE(info.estimatedTime * 1000);
}

int main(void) {
  constants();
  enumerations();
  layouts();
  initializers();
  return 0;
}

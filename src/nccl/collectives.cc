// The collectives and messages of the C interface: check what was given, then do it now or at the end of the group.
#include "src/nccl/arguments.h"
#include "src/nccl/group.h"
#include "src/nccl/pointer.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

// A collective as it was given.
struct Given {
  const char* function;
  Collective collective;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  ncclComm_t comm;
  cudaStream_t stream;
};

bool reduces(Collective one) {
  return one == Collective::all_reduce || one == Collective::reduce || one == Collective::reduce_scatter;
}
bool has_root(Collective one) {
  return one == Collective::reduce || one == Collective::broadcast || one == Collective::gather ||
         one == Collective::scatter;
}

CollectiveCall checked(Member& member, const Given& given) {
  CollectiveCall call{given.collective, given.send, given.receive, given.count, data_type(member, given.type),
                      ReduceOp::sum,    0};
  if (reduces(given.collective)) set_op(member, call, given.op);
  if (has_root(given.collective)) call.root = rank_within(member, "root", given.root);
  const bool at_root = !has_root(given.collective) || call.root == member.rank();
  const bool reads = at_root || given.collective == Collective::reduce || given.collective == Collective::gather;
  const bool writes = at_root || given.collective == Collective::broadcast || given.collective == Collective::scatter;
  if (reads) check_buffer(member, "sendbuff", given.send, given.count);
  if (writes) check_buffer(member, "recvbuff", given.receive, given.count);
  if (!reads) call.input = nullptr;
  if (!writes) call.output = nullptr;
  static_cast<void>(place_of(reads ? given.send : given.receive, given.stream));
  return call;
}

// Without a group on a blocking communicator nothing is kept, so that a small call costs little more than in C++.
template <class What>
ncclResult_t do_or_submit(const Use& use, const What& what) {
  if (group_of_thread().depth > 0 || !use->settings().blocking) return submit(Operation{use.handle(), what});
  const Member::InOperation mark(*use);
  try {
    if constexpr (std::is_same_v<What, Transfer>)
      use->usable().exchange({&what, 1});
    else
      use->usable().run(what);
  } catch (const Error& error) {
    use->note(error);
    throw;
  }
  return ncclSuccess;
}

ncclResult_t collective(const Given& given) {
  return guarded_in_group({given.function, given.comm}, [&] {
    const Use use(given.comm);
    return do_or_submit(use, checked(*use, given));
  });
}

ncclResult_t transfer(const char* function, bool send, void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return guarded_in_group({function, comm}, [&] {
    const Use use(comm);
    const Transfer checked{send ? Transfer::Direction::send : Transfer::Direction::receive, data, count,
                           data_type(*use, type), rank_within(*use, "peer", peer)};
    check_buffer(*use, send ? "sendbuff" : "recvbuff", data, count);
    static_cast<void>(place_of(data, stream));
    return do_or_submit(use, checked);
  });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's
using tutti::Collective;

extern "C" {

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclAllReduce", Collective::all_reduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream});
}
TUTTI_NCCL_TWIN(ncclAllReduce);

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({"ncclReduce", Collective::reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}
TUTTI_NCCL_TWIN(ncclReduce);

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclReduceScatter", Collective::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream});
}
TUTTI_NCCL_TWIN(ncclReduceScatter);

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclBroadcast", Collective::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}
TUTTI_NCCL_TWIN(ncclBroadcast);

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return collective({"ncclBcast", Collective::broadcast, buff, buff, count, datatype, ncclSum, root, comm, stream});
}
TUTTI_NCCL_TWIN(ncclBcast);

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclAllGather", Collective::all_gather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream});
}
TUTTI_NCCL_TWIN(ncclAllGather);

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(
      {"ncclAlltoAll", Collective::all_to_all, sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream});
}
TUTTI_NCCL_TWIN(ncclAlltoAll);

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclGather", Collective::gather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}
TUTTI_NCCL_TWIN(ncclGather);

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                          ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclScatter", Collective::scatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}
TUTTI_NCCL_TWIN(ncclScatter);

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return transfer("ncclSend", true, const_cast<void*>(sendbuff), count, datatype, peer, comm, stream);
}
TUTTI_NCCL_TWIN(ncclSend);

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return transfer("ncclRecv", false, recvbuff, count, datatype, peer, comm, stream);
}
TUTTI_NCCL_TWIN(ncclRecv);

}  // extern "C"

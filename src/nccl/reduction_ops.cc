// Operators that are made at run time: sums of elements that are multiplied by a factor first.
#include <atomic>

#include "src/nccl/arguments.h"
#include "src/nccl/guarded.h"
#include "src/nccl/handle.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

// No two operators of a process have one number, so that one of another communicator is refused.
ncclRedOp_t next_op() {
  static std::atomic<int> next{ncclNumOps};
  const int number = next.fetch_add(1);
  if (number < ncclNumOps) refuse_usage("there are no numbers left for new operators in this process");
  return static_cast<ncclRedOp_t>(number);
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded({"ncclRedOpCreatePreMulSum", comm}, [&] {
    const Use use(comm);
    require(op, "op");
    require(scalar, "scalar");
    const tutti::DataType type = data_type(*use, datatype);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
      use->refuse("the residence is " + std::to_string(static_cast<int>(residence)) +
                  "; valid: 0 (ncclScalarDevice), 1 (ncclScalarHostImmediate)");
    const bool now = residence == ncclScalarHostImmediate;
    const Scaling scaling{type, tutti::Factor::from_element(type, scalar), now ? nullptr : scalar};
    const ncclRedOp_t made = next_op();
    use->with_books([&](Member::Books& books) { books.scalings[made] = scaling; });
    *op = made;
  });
}
TUTTI_NCCL_TWIN(ncclRedOpCreatePreMulSum);

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded({"ncclRedOpDestroy", comm}, [&] {
    const Use use(comm);
    if (use->with_books([&](Member::Books& books) { return books.scalings.erase(op); }) == 0)
      use->refuse("the op is " + std::to_string(static_cast<int>(op)) +
                  "; valid: what ncclRedOpCreatePreMulSum made for this communicator and was not destroyed before");
  });
}
TUTTI_NCCL_TWIN(ncclRedOpDestroy);

}  // extern "C"

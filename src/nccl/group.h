// ncclGroupStart ... ncclGroupEnd, and what is done at the end of the outermost one. A thread's own; a thread that ends
// with an open group forgets it.
//
// At the end, in this order:
// 1. jobs: those that make communicators. All at once, a thread for each; several on one parent one after another.
// 2. operations: on each communicator its collectives in call order, then all its messages as one exchange. All are
//    started before any is waited for, and none is waited for while another needs driving.
// 3. endings: finalize and destroy.
// When a call in the group was refused, or a step fails, what follows does not happen, and the group is over.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nccl.h"
#include "src/nccl/guarded.h"
#include "src/nccl/handle.h"
#include "tutti/communicator.h"

namespace tutti::nccl {

// A collective or a message that was called in a group.
struct Operation {
  ncclComm_t comm;
  std::variant<CollectiveCall, Transfer> what;
};

// The making of a communicator.
struct Job {
  Entry entry;
  std::shared_ptr<Member> parent;  // null for one that has none
  std::shared_ptr<Member> child;   // null for a rank that only helps
  ncclComm_t* out;                 // where the handle goes
  std::function<std::optional<Communicator>()> connect;
  bool blocking = true;
};

struct Group {
  int depth = 0;
  ncclResult_t refused = ncclSuccess;  // the first call that was
  std::string reason;
  std::vector<Operation> operations;
  std::vector<Job> jobs;
  std::vector<std::function<void()>> endings;
};

Group& group_of_thread();
void refuse_group(ncclResult_t result);  // does nothing when none is open

// Like guarded(); a failure is remembered by the open group, whose end reports it.
template <class Body>
ncclResult_t guarded_in_group(const Entry& entry, Body&& body) noexcept {
  const ncclResult_t result = guarded(entry, std::forward<Body>(body));
  if (result != ncclSuccess && result != ncclInProgress) refuse_group(result);
  return result;
}

// Does it now, or at the end of the group. ncclInProgress when it goes on after the return.
ncclResult_t submit(Job job);
ncclResult_t submit(const Operation& operation);
void submit_ending(std::function<void()> ending);

// jobs.cc, operations.cc: the two first steps. Throw one Error that speaks of all that failed.
ncclResult_t run_jobs(std::vector<Job> jobs);
ncclResult_t run_operations(const std::vector<Operation>& operations);
double predicted_us(const std::vector<Operation>& operations);

// One Error for several: the first that is a cause rather than an echo, with the texts of the others. Does nothing for
// none.
void throw_all(const std::vector<Error>& errors);

}  // namespace tutti::nccl

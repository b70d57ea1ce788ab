#include "src/nccl/group.h"

#include <utility>

#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

// What may end: an open group. Takes everything out of it, so that the next one starts afresh whatever comes.
Group end_of_outermost(const char* function) {
  Group& group = group_of_thread();
  if (group.depth == 0) refuse_usage(std::string(function) + " without ncclGroupStart in this thread");
  return std::exchange(group, {});
}

void check_refused(const Group& group) {
  if (group.refused == ncclSuccess) return;
  const std::string text = "nothing of the group was run, because a call in it was refused: " + group.reason;
  if (group.refused == ncclInvalidArgument) refuse_argument(text);
  if (group.refused == ncclInvalidUsage) refuse_usage(text);
  throw Error(group.refused == ncclRemoteError   ? ErrorCode::remote_error
              : group.refused == ncclSystemError ? ErrorCode::system_error
                                                 : ErrorCode::internal_error,
              text);
}

ncclResult_t run(Group group) {
  check_refused(group);
  ncclResult_t result = ncclSuccess;
  if (!group.jobs.empty()) result = run_jobs(std::move(group.jobs));
  if (!group.operations.empty() && run_operations(group.operations) == ncclInProgress) result = ncclInProgress;
  std::vector<Error> errors;
  for (const auto& ending : group.endings) {
    try {
      ending();
    } catch (const Error& error) {
      errors.push_back(error);
    }
  }
  throw_all(errors);
  return result;
}

// The caller's structure, as far as it goes.
void answer(ncclSimInfo_t* info, double us) {
  constexpr unsigned kMagic = 0x74685283;
  require(info, "simInfo");
  if (info->magic != kMagic || info->size < sizeof(ncclSimInfo_t))
    refuse_argument("simInfo was not initialised: start from NCCL_SIM_INFO_INITIALIZER");
  info->estimatedTime = static_cast<float>(us);
}

}  // namespace

Group& group_of_thread() {
  thread_local Group group;
  return group;
}

void refuse_group(ncclResult_t result) {
  Group& group = group_of_thread();
  if (group.depth == 0 || group.refused != ncclSuccess) return;
  group.refused = result;
  group.reason = last_error_of_thread();
}

ncclResult_t submit(Job job) {
  Group& group = group_of_thread();
  const bool blocking = job.blocking;
  std::vector<Job> now;
  auto& jobs = group.depth > 0 ? group.jobs : now;
  jobs.push_back(std::move(job));
  if (group.depth > 0) return blocking ? ncclSuccess : ncclInProgress;
  return run_jobs(std::move(now));
}

ncclResult_t submit(const Operation& operation) {
  Group& group = group_of_thread();
  if (group.depth == 0) return run_operations({operation});
  group.operations.push_back(operation);
  return ncclSuccess;
}

void submit_ending(std::function<void()> ending) {
  Group& group = group_of_thread();
  if (group.depth == 0) return ending();
  group.endings.push_back(std::move(ending));
}

void throw_all(const std::vector<Error>& errors) {
  if (errors.empty()) return;
  std::size_t cause = 0;
  const auto echo = [](const Error& error) {
    return error.code() == ErrorCode::remote_error || error.code() == ErrorCode::timeout;
  };
  while (cause < errors.size() && echo(errors[cause])) ++cause;
  if (cause == errors.size()) cause = 0;
  std::string text = errors[cause].what();
  for (std::size_t k = 0; k < errors.size(); ++k)
    if (k != cause) text += std::string("; also: ") + errors[k].what();
  throw Error(errors[cause].code(), text);
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclGroupStart() {
  return guarded({"ncclGroupStart"}, [] { ++group_of_thread().depth; });
}
TUTTI_NCCL_TWIN(ncclGroupStart);

ncclResult_t pncclGroupEnd() {
  if (Group& group = group_of_thread(); group.depth > 1) {
    --group.depth;
    return ncclSuccess;
  }
  return guarded({"ncclGroupEnd"}, [] { return run(end_of_outermost("ncclGroupEnd")); });
}
TUTTI_NCCL_TWIN(ncclGroupEnd);

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return guarded({"ncclGroupSimulateEnd"}, [&] {
    if (group_of_thread().depth > 1)
      refuse_usage("only the outermost group can be simulated; " + std::to_string(group_of_thread().depth) +
                   " are open");
    const Group group = end_of_outermost("ncclGroupSimulateEnd");
    check_refused(group);
    if (!group.jobs.empty() || !group.endings.empty())
      refuse_usage("the group makes or ends communicators, which cannot be simulated; nothing of it was run");
    answer(simInfo, predicted_us(group.operations));
  });
}
TUTTI_NCCL_TWIN(ncclGroupSimulateEnd);

}  // extern "C"

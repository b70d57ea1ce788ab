#include "src/nccl/member.h"

#include <utility>

#include "src/nccl/result.h"

namespace tutti::nccl {

Member::Member(Settings settings, std::optional<int> device) : settings_(std::move(settings)), device_(device) {}

int Member::rank() const { return connected().rank(); }
int Member::size() const { return connected().size(); }
int Member::device() const { return device_ ? *device_ : connected().local_rank(); }

std::string Member::who() const {
  std::string text = "rank " + std::to_string(rank()) + " of " + std::to_string(size());
  if (!settings_.name.empty()) text += " of '" + settings_.name + "'";
  return text;
}

void Member::refuse(const std::string& what) const { refuse_argument(who() + ": " + what); }
void Member::refuse_usage(const std::string& what) const { nccl::refuse_usage(who() + ": " + what); }

void Member::adopt(Communicator communicator) { communicator_.emplace(std::move(communicator)); }

// NCCL calls this a wrong argument.
void Member::check_idle() const {
  if (busy())
    refuse_argument(
        "what was called before on this communicator is still in progress: poll ncclCommGetAsyncError until "
        "it says something other than ncclInProgress");
}

const Communicator& Member::connected() const {
  check_idle();
  if (!communicator_)
    nccl::refuse_usage("this communicator was never connected" + (cause().empty() ? "" : ", because: " + cause()) +
                       "; it can only be destroyed");
  return *communicator_;
}

Communicator& Member::connected() { return const_cast<Communicator&>(std::as_const(*this).connected()); }

Communicator& Member::quiet() {
  Communicator& communicator = connected();
  if (finalized_.load(std::memory_order_acquire))
    refuse_usage("the communicator was finalized; it can only be destroyed");
  return communicator;
}

Communicator& Member::usable() {
  Communicator& communicator = quiet();
  if (revoked_.load(std::memory_order_acquire))
    refuse_usage("the communicator was revoked; it can be split, shrunk, destroyed and aborted");
  return communicator;
}

void Member::keep(Work work) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(work));
}

ncclResult_t Member::poll() {
  if (busy()) return ncclInProgress;
  while (std::optional<Work> next = take_kept(true)) end(*next);
  if (fault() == ncclSuccess && communicator_)
    if (const auto ended = communicator_->failure()) fail(*ended);
  const std::lock_guard lock(mutex_);
  return kept_.empty() ? fault() : ncclInProgress;
}

void Member::complete() {
  while (std::optional<Work> next = take_kept(false)) end(*next);
}

// The oldest that is kept, if there is one and, when asked so, it is done.
std::optional<Work> Member::take_kept(bool only_done) {
  const std::lock_guard lock(mutex_);
  if (kept_.empty() || (only_done && !kept_.front().test())) return std::nullopt;
  std::optional<Work> next(std::move(kept_.front()));
  kept_.pop_front();
  return next;
}

void Member::end(Work& work) {
  try {
    work.wait();
  } catch (const Error& error) {
    fail(error);
  }
}

void Member::finalize() {
  quiet();
  if (revoked_.load(std::memory_order_acquire)) refuse_usage("the communicator was revoked; destroy or abort it");
  finalized_.store(true, std::memory_order_release);
  if (settings_.blocking) complete();
}

void Member::revoke() {
  quiet();
  revoked_.store(true, std::memory_order_release);
  stop("ncclCommRevoke was called on " + who());
}

void Member::stop(const std::string& reason) {
  Communicator& communicator = connected();
  bool kept = false;
  {
    const std::lock_guard lock(mutex_);
    kept = !kept_.empty();
  }
  if (kept || operations_.load() != 0) communicator.abort(reason);
}

void Member::abort(const std::string& reason) {
  if (!busy() && communicator_) communicator_->abort(reason);
}

void Member::note(const Error& error) {
  if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::invalid_usage) fail(error);
}

void Member::fail(const Error& error) {
  ncclResult_t none = ncclSuccess;
  fault_.compare_exchange_strong(none, result_of(error.code()), std::memory_order_acq_rel);
  const std::lock_guard lock(mutex_);
  last_error_ = error.what();
  if (cause_.empty()) cause_ = error.what();
}

std::string Member::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

std::string Member::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void Member::set_last_error(const std::string& message) {
  const std::lock_guard lock(mutex_);
  last_error_ = message;
}

}  // namespace tutti::nccl

// ncclComm_t: a small shell around a Member.
//
// The shell of a communicator that is gone stays (some 40 bytes), so that its use is always found and refused, and
// never reads memory that is another's now.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "nccl.h"
#include "src/nccl/member.h"

struct ncclComm {
  static constexpr std::uint64_t kAlive = 0x74757474692d6363, kGone = 0x676f6e65;
  std::atomic<std::uint64_t> mark{kAlive};
  std::atomic<int> users{0};  // calls that are inside
  std::shared_ptr<tutti::nccl::Member> member;
  ncclComm* next = nullptr;  // all that ever were
};

namespace tutti::nccl {

ncclComm_t make_handle(std::shared_ptr<Member> member);

// False for null, for one that was taken, and for what was never a handle as far as that can be told.
bool is_alive(ncclComm_t handle);

// Makes the handle useless and returns what it stood for; throws Error(invalid_argument) when somebody did before.
// Calls of other threads may still be inside: see release().
Member& take(ncclComm_t handle);
// After take(): waits until no call is inside, then lets go of the member.
void release(ncclComm_t handle);

// A call on a communicator: while it lives, the member does. Throws Error(invalid_argument) for null and for a handle
// that was taken.
class Use {
 public:
  explicit Use(ncclComm_t handle);
  Use(Use&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (handle_ != nullptr) handle_->users.fetch_sub(1);
  }
  Member& operator*() const { return *handle_->member; }
  Member* operator->() const { return handle_->member.get(); }
  ncclComm_t handle() const { return handle_; }
  const std::shared_ptr<Member>& shared() const { return handle_->member; }

 private:
  ncclComm_t handle_;
};

}  // namespace tutti::nccl

#include "src/nccl/handle.h"

#include <chrono>
#include <thread>

#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

// So that a leak checker can see them.
std::atomic<ncclComm*> all_handles{nullptr};

// Whether there can be a handle: small numbers and crooked addresses are none, and must not be read.
bool plausible(ncclComm_t handle) {
  constexpr std::uintptr_t kFirstPage = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  return address >= kFirstPage && address % alignof(ncclComm) == 0;
}

[[noreturn]] void refuse_gone() {
  refuse_argument("this is no communicator, or one that was destroyed or aborted before");
}

}  // namespace

bool is_alive(ncclComm_t handle) { return plausible(handle) && handle->mark.load() == ncclComm::kAlive; }

ncclComm_t make_handle(std::shared_ptr<Member> member) {
  auto* handle = new ncclComm;
  handle->member = std::move(member);
  handle->next = all_handles.load();
  while (!all_handles.compare_exchange_weak(handle->next, handle)) {
  }
  return handle;
}

Member& take(ncclComm_t handle) {
  std::uint64_t alive = ncclComm::kAlive;
  if (!plausible(handle) || !handle->mark.compare_exchange_strong(alive, ncclComm::kGone)) refuse_gone();
  return *handle->member;
}

void release(ncclComm_t handle) {
  while (handle->users.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  handle->member.reset();
}

Use::Use(ncclComm_t handle) : handle_(handle) {
  if (handle == nullptr) refuse_argument("the communicator is NULL");
  if (!is_alive(handle)) refuse_gone();  // not one of ours: must not be written to
  handle->users.fetch_add(1);
  if (handle->mark.load() == ncclComm::kAlive) return;
  handle->users.fetch_sub(1);
  refuse_gone();
}

}  // namespace tutti::nccl

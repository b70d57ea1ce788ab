// ncclMemAlloc: memory that the other ranks of the host can reach.
#include <mutex>
#include <unordered_map>

#include "src/nccl/guarded.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"
#include "tutti/memory.h"

namespace tutti::nccl {
namespace {

// By address, because ncclMemFree is told nothing else. Never destroyed: memory may be freed while the process ends.
class Allocations {
 public:
  void* add(Memory memory) {
    void* address = memory.data();
    const std::lock_guard lock(mutex_);
    all_.emplace(address, std::move(memory));
    return address;
  }
  // False when it is none of them.
  bool remove(void* address) {
    std::unordered_map<void*, Memory>::node_type taken;  // freed outside the lock
    const std::lock_guard lock(mutex_);
    taken = all_.extract(address);
    return !taken.empty();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Memory> all_;
};

Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guarded({"ncclMemAlloc"}, [&] {
    require(ptr, "ptr");
    *ptr = size == 0 ? nullptr : allocations().add(tutti::alloc(size));
  });
}
TUTTI_NCCL_TWIN(ncclMemAlloc);

ncclResult_t pncclMemFree(void* ptr) {
  return guarded({"ncclMemFree"}, [&] {
    if (ptr != nullptr && !allocations().remove(ptr))
      refuse_argument("this pointer is none that ncclMemAlloc gave, or was freed before");
  });
}
TUTTI_NCCL_TWIN(ncclMemFree);

}  // extern "C"

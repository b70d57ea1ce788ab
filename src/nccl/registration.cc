// Memory that a program makes known to a communicator. Tutti finds out by itself which memory its ranks can reach, so
// this is bookkeeping: handles that are valid until they are given back, and wrong ones refused.
#include "src/nccl/registration.h"
#include "src/nccl/guarded.h"
#include "src/nccl/handle.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

using Table = std::map<const void*, std::unique_ptr<Registration>>;

void check(const Member& member, const void* buffer, std::size_t bytes) {
  if (buffer == nullptr) member.refuse("buff is NULL; it must be the start of the memory");
  if (bytes == 0) member.refuse("size is 0; it must be the memory's in bytes");
}

Registration* add(Member& member, Table Member::Books::*table, void* buffer, std::size_t bytes) {
  auto registration = std::make_unique<Registration>(Registration{buffer, bytes});
  Registration* const handle = registration.get();
  member.with_books([&](Member::Books& books) { (books.*table).emplace(handle, std::move(registration)); });
  return handle;
}

// Null is what some programs keep for memory that they did not register.
void remove(Member& member, Table Member::Books::*table, const void* handle, const char* what) {
  if (handle == nullptr) return;
  if (member.with_books([&](Member::Books& books) { return (books.*table).erase(handle); }) == 0)
    member.refuse("this is no " + std::string(what) + " of this communicator, or one that was given back before");
}

}  // namespace

void* window_address(Member& member, ncclWindow_t window) {
  void* const address = member.with_books([&](Member::Books& books) -> void* {
    const auto known = books.windows.find(window);
    return known == books.windows.end() ? nullptr : known->second->buffer;
  });
  if (address == nullptr) member.refuse("this is no window of this communicator, or one that was given back before");
  return address;
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guarded({"ncclCommRegister", comm}, [&] {
    const Use use(comm);
    require(handle, "handle");
    check(*use, buff, size);
    *handle = add(*use, &Member::Books::registrations, buff, size);
  });
}
TUTTI_NCCL_TWIN(ncclCommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guarded({"ncclCommDeregister", comm}, [&] {
    const Use use(comm);
    remove(*use, &Member::Books::registrations, handle, "registration");
  });
}
TUTTI_NCCL_TWIN(ncclCommDeregister);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  return guarded({"ncclCommWindowRegister", comm}, [&] {
    const Use use(comm);
    require(win, "win");
    check(*use, buff, size);
    if (winFlags != NCCL_WIN_DEFAULT && winFlags != NCCL_WIN_COLL_SYMMETRIC)
      use->refuse("winFlags is " + std::to_string(winFlags) +
                  "; valid: 0 (NCCL_WIN_DEFAULT), 1 (NCCL_WIN_COLL_SYMMETRIC)");
    *win = reinterpret_cast<ncclWindow_t>(add(*use, &Member::Books::windows, buff, size));
  });
}
TUTTI_NCCL_TWIN(ncclCommWindowRegister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return guarded({"ncclCommWindowDeregister", comm}, [&] {
    const Use use(comm);
    remove(*use, &Member::Books::windows, win, "window");
  });
}
TUTTI_NCCL_TWIN(ncclCommWindowDeregister);

}  // extern "C"

#include "src/nccl/guarded.h"

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "src/nccl/handle.h"
#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

struct Failure {
  ncclResult_t result;
  std::string text;
};

// Of the exception that is being handled.
Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {result_of(error.code()), error.what()};
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "out of memory"};
  } catch (const std::system_error& error) {
    return {ncclSystemError, error.what()};
  } catch (const std::exception& error) {
    return {ncclInternalError, error.what()};
  } catch (...) {
    return {ncclInternalError, "an unknown exception"};
  }
}

void tell(ncclComm_t comm, const std::string& text) {
  set_last_error_of_thread(text);
  if (comm == nullptr) return;
  try {
    Use(comm)->set_last_error(text);
  } catch (const Error&) {
    // It is gone; the thread's text remains.
  }
}

}  // namespace

ncclResult_t failed(const Entry& entry) noexcept {
  try {
    const Failure failure = current_failure();
    tell(entry.comm, std::string(entry.function) + ": " + failure.text);
    return failure.result;
  } catch (...) {
    return ncclSystemError;  // no memory even for the text
  }
}

}  // namespace tutti::nccl

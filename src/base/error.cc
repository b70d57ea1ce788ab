#include "tutti/error.h"

#include "src/base/error.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace tutti {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::invalid_usage: return "invalid usage";
    case ErrorCode::system_error: return "system error";
    case ErrorCode::remote_error: return "remote error";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::internal_error: return "internal error";
  }
  return "unknown error";
}

namespace base {

std::string errno_text(int number) {
  return std::generic_category().message(number) + " (errno " + std::to_string(number) + ")";
}

void throw_errno(const std::string& what, int number) {
  throw Error(ErrorCode::system_error, what + ": " + errno_text(number));
}

}  // namespace base
}  // namespace tutti

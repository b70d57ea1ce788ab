#include "tutti/error.h"

#include "src/base/error.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include <sys/resource.h>

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

namespace {

// What to do about it, for the one shortage that users meet and can end.
std::string advice(int number) {
  if (number == EMFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return "; this process may open " + std::to_string(limit.rlim_cur) +
           " files and sockets: raise the limit with `ulimit -n`";
  }
  if (number == ENFILE) {
    std::string most = "as many as fs.file-max says";
    std::ifstream("/proc/sys/fs/file-max") >> most;
    return "; all processes of this host may open " + most +
           " files and sockets: raise the limit with `sysctl fs.file-max=N`";
  }
  return "";
}

}  // namespace

std::string errno_text(int number) {
  return std::generic_category().message(number) + " (errno " + std::to_string(number) + advice(number) + ")";
}

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

void throw_errno(const std::string& what, int number) {
  throw Error(ErrorCode::system_error, what + ": " + errno_text(number));
}

}  // namespace base
}  // namespace tutti

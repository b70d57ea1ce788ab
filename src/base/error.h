// Helpers for the first detector of a failed system call.
#pragma once

#include <cerrno>
#include <string>

#include "tutti/error.h"

namespace tutti::base {

// "No such file or directory (errno 2)"
std::string errno_text(int number = errno);

// Throws Error(system_error): "<what>: <errno text>".
[[noreturn]] void throw_errno(const std::string& what, int number = errno);

}  // namespace tutti::base

// Helpers for the first detector of a failed system call.
#pragma once

#include <cerrno>
#include <string>

#include "tutti/error.h"

namespace tutti::base {

// "No such file or directory (errno 2)". A want of descriptors also names the limit and how to raise it.
std::string errno_text(int number = errno);

// EMFILE or ENFILE: the process, or the host, has as many files and sockets open as it may.
bool out_of_descriptors(int error);

// Throws Error(system_error): "<what>: <errno text>".
[[noreturn]] void throw_errno(const std::string& what, int number = errno);

}  // namespace tutti::base

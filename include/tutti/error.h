// The one exception type of the library. what() is a whole sentence: what failed, on which rank, with which peer and
// host, the errno text, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti {

enum class ErrorCode {
  invalid_argument,  // the caller's arguments, environment or files: the call had no effect
  invalid_usage,     // the calls of different ranks do not fit together, or a call is made at the wrong time
  system_error,      // the operating system refused something; the errno text is in the message
  remote_error,      // another rank died, left or reported an error; the message names it
  timeout,           // the deadline passed; the message says which ranks were waited for
  aborted,           // abort() was called on this communicator here or on another rank
  internal_error,    // a fault of this library
};

const char* name_of(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tutti

// The environment variables that the library and its tools read, and a look for misspelt ones.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::base {

// docs/design.md has a table of what they mean and what they may be; a test compares the names.
inline constexpr std::array<std::string_view, 17> kVariables{
    "TUTTI_ALGO",       "TUTTI_BUFFER_LIMIT", "TUTTI_INIT_TIMEOUT", "TUTTI_JOB",           "TUTTI_KERNELS",
    "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE",   "TUTTI_LOG",          "TUTTI_PROFILE",       "TUTTI_RANK",
    "TUTTI_RENDEZVOUS", "TUTTI_SECRET",       "TUTTI_SIZE",         "TUTTI_SOCKET_IFNAME", "TUTTI_SSH",
    "TUTTI_TIMEOUT",    "TUTTI_TRANSPORT"};

// For each variable of `environment` (as environ: NAME=VALUE, null at the end) that begins with TUTTI_ and is none of
// the above, a sentence with the known name that is nearest to it.
std::vector<std::string> complaints_about_variables(const char* const* environment);

// Logs them as warnings, the first time that it is called in a process.
void warn_of_unknown_variables();

}  // namespace tutti::base

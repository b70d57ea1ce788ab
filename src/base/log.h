// Log lines of the library: to standard error, one write per line, quiet unless TUTTI_LOG asks (error, warn, info,
// debug; default warn). A fault is logged where it is detected; whoever passes it on stays silent.
#pragma once

#include <string>

namespace tutti::base {

enum class LogLevel { error, warn, info, debug };

// Throws Error(invalid_argument) when TUTTI_LOG names no level. Logging itself never throws: it takes warn then.
void check_log_environment();
bool log_enabled(LogLevel level);
void log(LogLevel level, const std::string& line);

}  // namespace tutti::base

// Log lines of the library: to standard error, one write per line, quiet unless TUTTI_LOG asks (error, warn, info,
// debug; default warn). A fault is logged where it is detected; whoever passes it on stays silent.
#pragma once

#include <string>

namespace tutti::base {

enum class LogLevel { error, warn, info, debug };

bool log_enabled(LogLevel level);
void log(LogLevel level, const std::string& line);

}  // namespace tutti::base

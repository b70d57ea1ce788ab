#include "src/base/log.h"

#include <unistd.h>

#include <array>

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

LogLevel level_from_environment() {
  const auto text = env("TUTTI_LOG");
  if (!text) return LogLevel::warn;
  const std::string level = parse_choice("TUTTI_LOG", *text, {"error", "warn", "info", "debug"});
  return level == "error"  ? LogLevel::error
         : level == "warn" ? LogLevel::warn
         : level == "info" ? LogLevel::info
                           : LogLevel::debug;
}

}  // namespace

void check_log_environment() { level_from_environment(); }

bool log_enabled(LogLevel level) {
  static const LogLevel limit = [] {
    try {
      return level_from_environment();
    } catch (const Error&) {
      return LogLevel::warn;
    }
  }();
  return level <= limit;
}

void log(LogLevel level, const std::string& line) {
  if (!log_enabled(level)) return;
  static constexpr std::array<const char*, 4> kNames{"error", "warn", "info", "debug"};
  const std::string text = std::string("tutti ") + kNames[static_cast<std::size_t>(level)] + ": " + line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace tutti::base

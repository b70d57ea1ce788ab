// Runs the processes of a job to their end: passes on what they print and the signals the launcher gets, ends all when
// one fails, and leaves no process behind.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/tutti/run_process.h"

namespace tutti::tools {

struct LaunchOptions {
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds grace{5000};  // between SIGTERM and SIGKILL
  bool prefix = true;                     // lines begin with "[rank] "
  std::string output_directory;           // not empty: DIR/rank-R.out and .err instead of the launcher's output
  std::string secret;                     // marks the job's processes
};

inline constexpr int kTimedOut = 124;  // as timeout(1)

// Starts the ranks, waits for all of them, and returns the launcher's exit status: 0, the first failure's status (128 +
// number for a signal), 127 or 126 for a program that cannot be executed, kTimedOut, or 128 + number for a signal
// that the launcher got. Says on standard error what went wrong. While it runs it owns the process's signal mask and
// its children. Throws Error(system_error) when processes or pipes cannot be made; the ranks are then ended.
int launch(const std::vector<RankCommand>& commands, const LaunchOptions& options);

}  // namespace tutti::tools

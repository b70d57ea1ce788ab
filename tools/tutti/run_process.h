// One rank's process: how it is started, told to end, and why it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.h"

namespace tutti::tools {

struct RankCommand {
  int rank = 0;
  std::string host;                      // empty: this one; else argv is a remote shell that starts the rank there
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // the whole of it, "NAME=value"
  std::vector<int> pus;                  // bound to these; empty: not bound
};

// Descriptors for the child's 0, 1 and 2; they stay the caller's.
struct Standard {
  int in = 0;
  int out = 1;
  int err = 2;
};

struct RankProcess {
  int rank = 0;
  std::string host;
  pid_t pid = -1;                   // also its process group. Not reaped before the end, so the number stays its own
  base::Fd control;                 // remote: the remote shell's input, by which signals travel
  std::optional<siginfo_t> ending;  // set when it has ended
};

// The program cannot be executed; the status is the shells' (127: not found, 126: found but refused).
struct CannotExecute {
  int status = 127;
  std::string message;
};

// Starts the rank in a process group of its own, to be killed when the launcher dies. `mask` is the signal mask for it.
// Throws CannotExecute, or Error(system_error).
RankProcess start_rank(const RankCommand& command, const Standard& standard, const sigset_t& mask);

// Notes whether it has ended; true when it has just now.
bool check_ended(RankProcess& process);

bool failed(const RankProcess& ended);
int exit_status(const RankProcess& ended);              // 128 + number for a signal
std::string describe_ending(const RankProcess& ended);  // "rank 2 (pid 812) was killed by signal 9 (Killed)"
std::string describe_signal(int number);                // "signal 9 (Killed)"

// To all of its process group; for a remote rank to the group at the other end.
void send_signal(const RankProcess& process, int number);

}  // namespace tutti::tools

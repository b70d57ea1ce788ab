#include "tools/tutti/run_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/error.h"

namespace tutti::tools {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

void bind_to(const std::vector<int>& pus) {
  if (pus.empty()) return;
  const auto limit = static_cast<std::size_t>(pus.back()) + 1;  // ascending
  cpu_set_t* mask = CPU_ALLOC(limit);
  const std::size_t bytes = CPU_ALLOC_SIZE(limit);
  CPU_ZERO_S(bytes, mask);
  for (const int pu : pus) CPU_SET_S(static_cast<std::size_t>(pu), bytes, mask);
  sched_setaffinity(0, bytes, mask);
  CPU_FREE(mask);
}

// Puts `from` at `to` even where they are the same number, which would otherwise stay close-on-exec.
void place(int from, int to) {
  if (from == to)
    fcntl(to, F_SETFD, 0);
  else
    dup2(from, to);
}

// The child between fork and exec. It returns only to be ended: the errno of a failed exec goes through `failure`.
void become(const RankCommand& command, const Standard& standard, const sigset_t& mask, pid_t launcher, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // it died before the line above
  bind_to(command.pus);
  place(standard.in, 0);
  place(standard.out, 1);
  place(standard.err, 2);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const auto argv = pointers(command.argv);
  const auto environment = pointers(command.environment);
  execvpe(argv[0], argv.data(), environment.data());
  const int number = errno;
  [[maybe_unused]] const ssize_t told = write(failure, &number, sizeof number);
  _exit(127);
}

}  // namespace

RankProcess start_rank(const RankCommand& command, const Standard& standard, const sigset_t& mask) {
  int ends[2];  // closed by a successful exec, else it carries the errno
  if (pipe2(ends, O_CLOEXEC) != 0) base::throw_errno("cannot make a pipe for rank " + std::to_string(command.rank));
  const base::Fd reading(ends[0]);
  base::Fd writing(ends[1]);
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) base::throw_errno("cannot start a process for rank " + std::to_string(command.rank));
  if (pid == 0) become(command, standard, mask, launcher, writing.get());
  writing.reset();
  int number = 0;
  ssize_t told = -1;
  do told = read(reading.get(), &number, sizeof number);
  while (told < 0 && errno == EINTR);
  if (told == static_cast<ssize_t>(sizeof number)) {
    waitpid(pid, nullptr, 0);
    const bool missing = number == ENOENT || number == ENOTDIR;
    throw CannotExecute{
        missing ? 127 : 126,
        "cannot run '" + command.argv.front() + "': " + base::errno_text(number) +
            (missing && command.argv.front().find('/') == std::string::npos ? "; it is not in PATH" : "")};
  }
  RankProcess process;
  process.rank = command.rank;
  process.host = command.host;
  process.pid = pid;
  return process;
}

bool check_ended(RankProcess& process) {
  if (process.ending) return false;
  siginfo_t ending{};
  if (waitid(P_PID, static_cast<id_t>(process.pid), &ending, WEXITED | WNOHANG | WNOWAIT) != 0 || ending.si_pid == 0)
    return false;
  process.ending = ending;
  return true;
}

bool failed(const RankProcess& ended) { return exit_status(ended) != 0; }

int exit_status(const RankProcess& ended) {
  return ended.ending->si_code == CLD_EXITED ? ended.ending->si_status : 128 + ended.ending->si_status;
}

std::string describe_signal(int number) { return "signal " + std::to_string(number) + " (" + strsignal(number) + ")"; }

std::string describe_ending(const RankProcess& ended) {
  const int status = ended.ending->si_status;
  std::string who = "rank " + std::to_string(ended.rank);
  if (!ended.host.empty()) who += " on host " + ended.host;
  if (ended.ending->si_code != CLD_EXITED)
    return who + " (pid " + std::to_string(ended.pid) + ") was killed by " + describe_signal(status) +
           (ended.ending->si_code == CLD_DUMPED ? ", core dumped" : "");
  who += " exited with status " + std::to_string(status);
  if (ended.host.empty()) return who;
  if (status == 255) return who + " (the remote shell could not reach the host or lost it, if not the program's own)";
  return status > 128 && status < 128 + NSIG ? who + " (as after " + describe_signal(status - 128) + ")" : who;
}

void send_signal(const RankProcess& process, int number) {
  if (process.host.empty()) {
    kill(-process.pid, number);
    return;
  }
  const char* name = sigabbrev_np(number);  // "TERM"
  if (name == nullptr || process.ending) return;
  const std::string line = std::string(name) + "\n";
  [[maybe_unused]] const ssize_t written = write(process.control.get(), line.data(), line.size());
}

}  // namespace tutti::tools

#include "tools/tutti/run_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "src/base/error.h"

namespace tutti::tools {
namespace {

std::string read_file(const std::string& path) {
  std::string text;
  const base::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  std::array<char, 16384> buffer;
  for (ssize_t bytes = 0; (bytes = read(fd.get(), buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  return text;
}

// Settings in /proc/PID/environ end with NUL.
bool has_setting(const std::string& environment, const std::string& setting) {
  const std::string_view text = environment;
  for (std::size_t at = text.find(setting); at != std::string_view::npos; at = text.find(setting, at + 1)) {
    const std::size_t end = at + setting.size();
    if ((at == 0 || text[at - 1] == '\0') && (end == text.size() || text[end] == '\0')) return true;
  }
  return false;
}

// Until none is left, for processes may fork while they are looked for; at most about ten seconds.
void kill_all_with(const std::string& setting) {
  for (int attempt = 0, quiet = 0; attempt < 500 && quiet < 2; ++attempt) {
    const std::vector<pid_t> found = processes_with(setting);
    for (const pid_t pid : found) kill(pid, SIGKILL);
    quiet = found.empty() ? quiet + 1 : 0;
    usleep(20'000);
  }
}

// The guard's life: out of reach of the terminal and of the launcher's process group, holding nothing open.
[[noreturn]] void stand_guard(int lifeline, const std::string& setting) {
  setsid();
  prctl(PR_SET_NAME, "tutti-guard");
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGQUIT}) signal(number, SIG_IGN);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) dup2(null, fd);
  dup2(lifeline, 3);
  close_range(4, ~0U, 0);
  char goodbye = 0;
  ssize_t bytes = -1;
  do bytes = read(3, &goodbye, 1);
  while (bytes < 0 && errno == EINTR);
  if (bytes == 0) kill_all_with(setting);
  _exit(0);
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& setting) {
  std::vector<pid_t> found;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0 || pid == getpid()) continue;
    if (has_setting(read_file("/proc/" + std::string(entry->d_name) + "/environ"), setting)) found.push_back(pid);
  }
  closedir(directory);
  return found;
}

Guard::Guard(const std::string& setting) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) base::throw_errno("cannot make a pipe");
  base::Fd reading(ends[0]);
  lifeline_ = base::Fd(ends[1]);
  pid_ = fork();
  if (pid_ < 0) base::throw_errno("cannot start a process");
  if (pid_ == 0) {
    lifeline_.reset();
    stand_guard(reading.get(), setting);
  }
}

Guard::~Guard() {
  [[maybe_unused]] const ssize_t written = write(lifeline_.get(), "q", 1);
  waitpid(pid_, nullptr, 0);
}

}  // namespace tutti::tools

#include "tools/tutti/run_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "src/base/error.h"

namespace tutti::tools {

base::Fd TerminalInput::open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) base::throw_errno("cannot make a pipe for rank 0's standard input");
  to_rank_ = base::Fd(ends[1]);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return base::Fd(ends[0]);
}

bool TerminalInput::wants_read() const {
  return to_rank_ && pending_.empty() && !ended_ && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void TerminalInput::read_some() {
  std::array<char, 4096> buffer;
  const ssize_t bytes = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (bytes > 0) {
    pending_.assign(buffer.data(), static_cast<std::size_t>(bytes));
    return write_some();
  }
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return;
  ended_ = true;
  close();
}

void TerminalInput::write_some() {
  const ssize_t bytes = write(to_rank_.get(), pending_.data(), pending_.size());
  if (bytes > 0) pending_.erase(0, static_cast<std::size_t>(bytes));
  if (bytes < 0 && errno != EINTR && errno != EAGAIN) close();  // rank 0 has closed its end
}

}  // namespace tutti::tools

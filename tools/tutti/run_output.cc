#include "tools/tutti/run_output.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::tools {

Sink::Sink(int fd) : fd_(fd) {
  // A terminal that is stopped (Ctrl-S) must not stop the launcher. Pipes need no such care: where poll reports room,
  // at least PIPE_BUF bytes of it are free.
  if (isatty(fd) != 0)
    reopened_ =
        base::Fd(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

void Sink::push(std::string_view text) {
  if (!broken_) queue_ += text;
}

void Sink::give_up() {
  broken_ = true;
  queue_.clear();
  written_ = 0;
}

void Sink::write_some() {
  const std::size_t bytes = std::min<std::size_t>(queue_.size() - written_, PIPE_BUF);
  const ssize_t written = write(fd(), queue_.data() + written_, bytes);
  if (written < 0 && errno != EINTR && errno != EAGAIN) {
    give_up();
    return;
  }
  if (written > 0) written_ += static_cast<std::size_t>(written);
  if (written_ == queue_.size() || written_ >= kFull) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

RankStream::RankStream(base::Fd pipe, Sink& sink, std::string prefix)
    : pipe_(std::move(pipe)), sink_(&sink), prefix_(std::move(prefix)) {
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // of the reading end alone
}

void RankStream::read_some(bool last) {
  if (sink_->broken()) return close();  // the rank's next write gets EPIPE, as if it wrote to the launcher's reader
  std::array<char, 65536> buffer;
  const ssize_t bytes = read(pipe_.get(), buffer.data(), buffer.size());
  if (bytes > 0) return pass_on({buffer.data(), static_cast<std::size_t>(bytes)});
  const bool nothing_yet = bytes < 0 && (errno == EAGAIN || errno == EINTR);
  if (!nothing_yet || last) close();
}

void RankStream::pass_on(std::string_view bytes) {
  while (!bytes.empty()) {
    if (line_.empty()) line_ = prefix_;
    const std::size_t room = kLongestLine + prefix_.size() - line_.size();
    const std::size_t end = bytes.substr(0, room + 1).find('\n');
    const bool whole = end != std::string_view::npos;
    if (!whole && bytes.size() <= room) {
      line_ += bytes;
      return;
    }
    line_ += bytes.substr(0, whole ? end : room);
    bytes.remove_prefix(whole ? end + 1 : room);
    line_ += '\n';
    sink_->push(line_);
    line_.clear();
  }
}

void RankStream::close() {
  if (!line_.empty()) sink_->push(line_ + "\n");
  line_.clear();
  pipe_.reset();
}

}  // namespace tutti::tools

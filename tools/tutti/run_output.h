// What ranks print, passed on in whole lines: RankStream takes one rank's pipe apart into lines, Sink writes them to
// the launcher's own standard output or error. Neither ever blocks, and the memory of both is bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/fd.h"

namespace tutti::tools {

// A queue in front of a descriptor of the launcher. When the reader has gone (EPIPE), it drops what it is given.
class Sink {
 public:
  explicit Sink(int fd);

  void push(std::string_view text);
  bool full() const { return queue_.size() - written_ >= kFull; }
  bool empty() const { return queue_.size() == written_; }
  bool broken() const { return broken_; }
  int fd() const { return reopened_ ? reopened_.get() : fd_; }
  void give_up();     // drops what is queued and all that comes
  void write_some();  // when poll says that it takes some

 private:
  static constexpr std::size_t kFull = std::size_t{1} << 20;  // nothing more is read from ranks above this

  int fd_;
  base::Fd reopened_;  // a terminal's second, non-blocking description; the first is shared with the user's shell
  std::string queue_;
  std::size_t written_ = 0;
  bool broken_ = false;
};

// One rank's standard output or error. Bytes pass unchanged, NUL included; a last line without an end gets one, and a
// line longer than kLongestLine goes out in pieces, each a line of its own.
class RankStream {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  RankStream(base::Fd pipe, Sink& sink, std::string prefix);

  int fd() const { return pipe_.get(); }
  bool open() const { return static_cast<bool>(pipe_); }
  bool wants_read() const { return open() && !sink_->full(); }
  void read_some(bool last);  // last: no one writes any more, so what is not there will not come
  const Sink& sink() const { return *sink_; }

 private:
  void pass_on(std::string_view bytes);
  void close();

  base::Fd pipe_;
  Sink* sink_;
  std::string prefix_;
  std::string line_;  // its beginning, prefix included; empty between lines
};

}  // namespace tutti::tools

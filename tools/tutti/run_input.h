// Standard input is rank 0's alone. A file or a pipe is handed to it as it is. A terminal is not: rank 0 is in a
// process group of its own, which the terminal does not let read, so the launcher reads and passes on.
#pragma once

#include <string>

#include "src/base/fd.h"

namespace tutti::tools {

class TerminalInput {
 public:
  TerminalInput() = default;
  // The reading end, for rank 0; the caller closes it once rank 0 has it.
  base::Fd open_pipe();

  bool wants_read() const;  // also false while the launcher is in the background: reading would stop it
  bool wants_write() const { return static_cast<bool>(to_rank_) && !pending_.empty(); }
  int fd() const { return to_rank_.get(); }
  void read_some();
  void write_some();
  void close() { to_rank_.reset(); }

 private:
  base::Fd to_rank_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace tutti::tools

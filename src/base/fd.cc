#include "src/base/fd.h"

#include <unistd.h>

namespace tutti::base {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace tutti::base

#include "src/runtime/parking.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace tutti::runtime {

bool register_for_barriers() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

void Parking::prepare() {
  std::array<char, 64> rings;  // of earlier sleeps
  while (::read(bell_, rings.data(), rings.size()) > 0) {
  }
  flag_.store(1, std::memory_order_relaxed);
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void Parking::sleep() const {
  pollfd item{bell_, POLLIN, 0};
  ::poll(&item, 1, static_cast<int>(kLongest.count()));
}

}  // namespace tutti::runtime

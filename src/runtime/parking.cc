#include "src/runtime/parking.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace tutti::runtime {
namespace {

constexpr std::size_t kMostBells = 7;  // of one rank: one for each transport

}  // namespace

bool register_for_barriers() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

void Parking::prepare() {
  if (flag_ == nullptr) return;
  std::array<char, 64> rings;  // of earlier sleeps; the first bell is the one that peers ring
  while (::read(bells_.front(), rings.data(), rings.size()) > 0) {
  }
  flag_->store(1, std::memory_order_relaxed);
  raised_ = true;
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void Parking::sleep(std::chrono::milliseconds limit, int other) const {
  std::array<pollfd, kMostBells + 1> items;
  nfds_t count = 0;
  for (const int bell : bells_)
    if (count < kMostBells) items[count++] = {bell, POLLIN, 0};
  items[count++] = {other, POLLIN, 0};  // poll() passes over a negative one
  ::poll(items.data(), count, static_cast<int>(limit.count()));
}

}  // namespace tutti::runtime

#include "src/base/fork_guard.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <atomic>

#include "src/base/error.h"

namespace tutti::base {
namespace {

constexpr std::size_t kPage = 4096;

void* wiped_on_fork() {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw_errno("cannot map a page of memory");
  if (::madvise(page, kPage, MADV_WIPEONFORK) != 0) throw_errno("cannot mark a page to be wiped on fork (Linux 4.14)");
  return page;
}

}  // namespace

ForkGuard::ForkGuard() : mark_(static_cast<volatile std::uint64_t*>(wiped_on_fork())) { *mark_ = 1; }

ForkGuard::~ForkGuard() { ::munmap(const_cast<std::uint64_t*>(mark_), kPage); }

std::uint64_t process_nonce() {
  static auto* const nonce = static_cast<std::atomic<std::uint64_t>*>(wiped_on_fork());
  std::uint64_t value = nonce->load();
  while (value == 0) {
    std::uint64_t fresh = 0;
    if (::getrandom(&fresh, sizeof fresh, 0) != sizeof fresh) throw_errno("cannot draw a random number (getrandom)");
    if (fresh != 0 && nonce->compare_exchange_strong(value, fresh)) value = fresh;
  }
  return value;
}

}  // namespace tutti::base

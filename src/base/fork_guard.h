// Noticing fork(): a page that the kernel hands to a child as zeroes (MADV_WIPEONFORK), so that a look costs one load
// and needs neither a system call nor a handler.
#pragma once

#include <cstdint>

namespace tutti::base {

class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // True in a child of the process that made the guard.
  bool forked() const { return *mark_ == 0; }

 private:
  volatile std::uint64_t* mark_;
};

// A random number that tells this process from all others, children of fork() included; never zero.
std::uint64_t process_nonce();

}  // namespace tutti::base

// The one background thread of this process: it serves the control plane of every communicator and drives asynchronous
// operations. It is made with the first communicator of more than one rank, shared by reference count, parked in epoll
// when idle (no CPU), and joined when the last user lets go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tutti::runtime {

// Work that the engine polls between waits, for as long as it says it is busy.
class Driver {
 public:
  virtual ~Driver() = default;
  enum class State { idle, busy, moved };  // nothing to do; waiting for others; something was done
  virtual State drive() = 0;               // never blocks, never throws
};

class Engine {
 public:
  static std::shared_ptr<Engine> acquire();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // `on_ready(events)` runs on the engine's thread when epoll reports `events` (EPOLLIN, ...) for fd. It must neither
  // block nor throw. unwatch() returns after the last call of on_ready, unless called from it.
  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> on_ready);
  void rewatch(int fd, std::uint32_t events);
  void unwatch(int fd);

  // drive() is called from the engine's thread until it says idle; wake() makes it call again. remove() returns after
  // the last call of drive().
  void add(Driver* driver);
  void remove(Driver* driver);
  void wake();

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime

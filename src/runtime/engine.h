// The one background thread of this process: it serves the control plane of every communicator and drives asynchronous
// operations. It is made with the first communicator of more than one rank, shared by reference count, parked in epoll
// when idle (no CPU), and joined when the last user lets go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/runtime/parking.h"
#include "src/runtime/plans.h"

namespace tutti::runtime {

// Work that the engine polls between waits, for as long as it says it is busy.
class Driver {
 public:
  virtual ~Driver() = default;
  // Nothing to do; waiting for others; the same, and no bell rings for what it waits for; something was done.
  enum class State { idle, busy, restless, moved };
  virtual State drive() = 0;  // never blocks, never throws
  // Descriptors that become readable when there may be news, the same ones always. None: there are no such.
  virtual std::span<const int> bells() const { return {}; }
  // drive() before a sleep: after it has said `busy`, news makes a bell readable (parking.h).
  virtual State settle() { return drive(); }
  // Whether the engine's thread may spin while it waits: a core is left over for it.
  virtual bool has_spare_core() const { return true; }
};

class Engine {
 public:
  static std::shared_ptr<Engine> acquire();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // `on_ready(events)` runs on the engine's thread when epoll reports `events` (EPOLLIN, ...) for fd. It must not
  // block; what it throws is logged. unwatch() returns after the last call of on_ready, unless called from it.
  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> on_ready);
  void rewatch(int fd, std::uint32_t events);
  void unwatch(int fd);

  // drive() is called from the engine's thread until it says idle; wake() makes it call again. remove() returns after
  // the last call of drive(). When all busy drivers have been so for a while without moving, the thread sleeps until
  // one of their bells rings; when one of them has none, it naps.
  void add(Driver* driver);
  void remove(Driver* driver);
  void wake();
  // wake() within a millisecond or so, for one who is likely to do the work himself before; costs him less.
  void wake_soon();

  // Runs `task` on the engine's thread: at once when called from it, else soon, in the order of the calls.
  void post(std::function<void()> task);
  // Runs `task` on the engine's thread once, `delay` from now. Whoever no longer wants it makes the task do nothing.
  void after(std::chrono::milliseconds delay, std::function<void()> task);
  // True on the engine's thread.
  bool on_thread() const;
  // From a driver only: serves descriptors and tasks, but no drivers, for up to `limit` or until one was served.
  void serve(std::chrono::milliseconds limit);
  // What plans for this World: one object for all ranks of this process that ask for equal ones, for as long as one of
  // them keeps it.
  std::shared_ptr<SharedPlanner> planner_for(const planner::World& world);
  std::size_t planners() const;  // that are kept
  // False in a child of fork(): its copy of the engine has no thread, and the watched descriptors are closed there.
  bool alive() const;

 private:
  Engine();
  friend struct EngineFork;
  struct Impl;
  std::shared_ptr<Impl> impl_;
  mutable std::mutex planners_mutex_;
  std::vector<std::weak_ptr<SharedPlanner>> planners_;
};

}  // namespace tutti::runtime

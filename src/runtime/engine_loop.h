// Inside of the engine: its state, and the loop of its thread. For engine.cc alone.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/fd.h"
#include "src/runtime/engine.h"

namespace tutti::runtime {

struct Engine::Impl {
  using Clock = std::chrono::steady_clock;

  struct Watch {
    std::function<void(std::uint32_t)> on_ready;
    int running = 0;
  };
  struct Entry {
    Driver* driver;
    bool idle;
    std::vector<int> bells;
  };

  base::Fd epoll, doorbell;
  base::Fd alarm;                      // a timer, for wake_soon()
  std::atomic<bool> alarm_set{false};  // and it has not gone off
  std::atomic<bool> alive{true};       // cleared by the only thread of a child of fork()
  std::atomic<bool> stop{false};

  // How a thread with news wakes the engine's thread, and how none is lost:
  //   who has news:   woken = true;  then looks at parked, and rings the doorbell if it is set
  //   the loop:       parked = true; then looks at woken, and does not sleep if it is set
  // All four are sequentially consistent, so at least one of the two sees the other's store. (With less each might read
  // the old value: no release store orders itself before a later load.) `stop` and what is under the mutex are written
  // before ring(), so the same argument holds for them.
  std::atomic<bool> woken{false};
  std::atomic<bool> parked{false};

  // Written once, by the thread itself. Relaxed: a thread compares it with its own id only, and another thread's loads
  // differ from that whatever they read.
  std::atomic<std::thread::id> thread_id{};
  std::thread* thread = nullptr;  // owned by the Engine; leaked in a child of fork()

  std::mutex mutex;  // guards everything below
  std::condition_variable finished;
  std::map<int, std::shared_ptr<Watch>> watches;
  std::vector<Entry> drivers;
  Driver* running_driver = nullptr;
  std::vector<std::function<void()>> tasks;
  std::multimap<Clock::time_point, std::function<void()>> timers;

  bool on_thread() const { return thread_id.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  void ring();  // any thread
  void loop();  // the thread, until stop

  // The engine's thread only.
  bool run_tasks();                            // what is due; true if anything was
  bool poll(std::chrono::microseconds limit);  // waits for descriptors (negative: without end) and serves them; true
                                               // if one was ready
 private:
  Driver::State drive_all(Driver::State (Driver::*drive)());
  bool spare_cores();
  bool arm_bells();
  Driver::State sleep(int n);
  std::chrono::microseconds time_to_sleep(std::chrono::microseconds limit);
  int wait(epoll_event* events, int capacity, std::chrono::microseconds limit);
  void serve(int fd, std::uint32_t events);
};

}  // namespace tutti::runtime

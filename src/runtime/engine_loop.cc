// The loop of the engine's thread:
//   1. run the posted tasks and the timers that are due
//   2. poll the drivers that are not idle
//   3. wait in epoll: not at all after movement, without limit when all drivers are idle; in between it spins, then
//      yields the core, then sleeps until a bell of a busy driver rings (parking.h); if one has no bell, it naps for
//      50 us, 100 us, ... up to 1 ms
// Everything but the callbacks runs under one mutex; callbacks run without it.
#include "src/runtime/engine_loop.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "src/base/log.h"

namespace tutti::runtime {
namespace {

using std::chrono::microseconds;

constexpr int kSpins = 200;     // polls without movement before the core is yielded
constexpr int kYields = 100;    // and before the thread sleeps
constexpr int kPollEvery = 16;  // busy polls per look at the descriptors
constexpr microseconds kFirstNap{50};
constexpr microseconds kLongestNap{1000};
constexpr microseconds kFirstSleep{10'000};  // faults and deadlines are looked at in between
constexpr microseconds kLongestSleep{100'000};
constexpr int kMostSleeps = 100;  // that are counted: by then they do not get longer

// Callbacks should not throw; one that does (no memory, no room for another watch) must not end the process.
template <class F>
void guarded(F&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    try {
      base::log(base::LogLevel::error, std::string("a callback of the engine's thread failed: ") + error.what());
    } catch (const std::exception&) {
    }
  }
}

}  // namespace

void Engine::Impl::ring() {
  woken.store(true);
  if (!parked.load()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(doorbell.get(), &one, sizeof one);
}

bool Engine::Impl::run_tasks() {
  std::vector<std::function<void()>> due;
  {
    std::lock_guard lock(mutex);
    due.swap(tasks);
    const auto now = Clock::now();
    while (!timers.empty() && timers.begin()->first <= now) {
      due.push_back(std::move(timers.begin()->second));
      timers.erase(timers.begin());
    }
  }
  for (auto& task : due) guarded(task);
  return !due.empty();
}

Driver::State Engine::Impl::drive_all(Driver::State (Driver::*drive)()) {
  Driver::State all = Driver::State::idle;
  for (std::size_t i = 0;; ++i) {
    Driver* driver = nullptr;
    {
      std::lock_guard lock(mutex);
      while (i < drivers.size() && drivers[i].idle) ++i;
      if (i >= drivers.size()) break;
      running_driver = driver = drivers[i].driver;
    }
    Driver::State state = Driver::State::busy;  // if it fails: called again
    guarded([&] { state = (driver->*drive)(); });
    std::lock_guard lock(mutex);
    running_driver = nullptr;
    for (Entry& entry : drivers)
      if (entry.driver == driver) entry.idle = state == Driver::State::idle;
    all = std::max(all, state);
    finished.notify_all();
  }
  return all;
}

bool Engine::Impl::spare_cores() {
  std::lock_guard lock(mutex);
  return std::all_of(drivers.begin(), drivers.end(),
                     [](const Entry& entry) { return entry.idle || entry.driver->has_spare_core(); });
}

// Has the bells of all busy drivers end the next sleep; false when one of them has none.
bool Engine::Impl::arm_bells() {
  std::lock_guard lock(mutex);
  for (const Entry& entry : drivers)
    if (!entry.idle && entry.bells.empty()) return false;
  for (const Entry& entry : drivers) {
    if (entry.idle) continue;
    for (const int bell : entry.bells) {
      epoll_event event{};
      event.events = EPOLLIN | EPOLLONESHOT;
      event.data.fd = bell;
      ::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, bell, &event);  // fails if it is removed: then it is not busy
    }
  }
  return true;
}

bool Engine::Impl::poll(microseconds limit) {
  parked.store(true);
  std::array<epoll_event, 32> events;
  const int count = wait(events.data(), static_cast<int>(events.size()), time_to_sleep(limit));
  parked.store(false);
  for (int i = 0; i < count; ++i) serve(events[i].data.fd, events[i].events);
  return count > 0;
}

// `limit`, or less: none when there is news, and at most until the next timer.
microseconds Engine::Impl::time_to_sleep(microseconds limit) {
  std::lock_guard lock(mutex);
  if (!tasks.empty() || woken.load() || stop.load()) return microseconds(0);
  if (timers.empty()) return limit;
  const auto left = std::max(std::chrono::ceil<microseconds>(timers.begin()->first - Clock::now()), microseconds(0));
  return limit.count() < 0 ? left : std::min(left, limit);
}

int Engine::Impl::wait(epoll_event* events, int capacity, microseconds limit) {
  if (limit.count() <= 0) return ::epoll_wait(epoll.get(), events, capacity, limit.count() < 0 ? -1 : 0);
  const timespec time{limit.count() / 1'000'000, limit.count() % 1'000'000 * 1000};
  const int count = ::epoll_pwait2(epoll.get(), events, capacity, &time, nullptr);
  if (count >= 0 || errno != ENOSYS) return count;
  const auto ms = std::min<std::int64_t>((limit.count() + 999) / 1000, 60'000);
  return ::epoll_wait(epoll.get(), events, capacity, static_cast<int>(ms));
}

void Engine::Impl::serve(int fd, std::uint32_t events) {
  if (fd == doorbell.get() || fd == alarm.get()) {
    std::uint64_t times;
    [[maybe_unused]] const ssize_t got = ::read(fd, &times, sizeof times);
    if (fd == doorbell.get()) return;
    alarm_set.store(false);  // before the look at the drivers: who comes now sets it again
    woken.store(true);
    return;
  }
  std::shared_ptr<Watch> watch;
  {
    std::lock_guard lock(mutex);
    const auto found = watches.find(fd);
    if (found == watches.end()) return;
    watch = found->second;
    ++watch->running;
  }
  guarded([&] { watch->on_ready(events); });
  std::lock_guard lock(mutex);
  --watch->running;
  finished.notify_all();
}

void Engine::Impl::loop() {
  thread_id.store(std::this_thread::get_id());
  int still = 0;  // polls of the drivers since something moved
  while (!stop.load()) {
    run_tasks();
    if (woken.exchange(false)) {
      std::lock_guard lock(mutex);
      for (Entry& entry : drivers) entry.idle = false;
    }
    const Driver::State state = drive_all(&Driver::drive);
    if (state == Driver::State::idle) {
      still = 0;
      poll(microseconds(-1));
      continue;
    }
    still = state == Driver::State::moved ? 0 : std::min(still + 1, kSpins + kYields + kMostSleeps);
    if (still == 1 && !spare_cores()) still = kSpins + kYields;  // the callers compute on all of them: sleep at once
    if (still < kSpins) {
      if (still % kPollEvery == 0) poll(microseconds(0));
    } else if (still < kSpins + kYields) {
      ::sched_yield();
      poll(microseconds(0));
    } else if (sleep(still - kSpins - kYields + 1) == Driver::State::moved) {
      still = 0;
    }
  }
}

// The n-th sleep in a row without movement. Answers what the look before it has found.
Driver::State Engine::Impl::sleep(int n) {
  using State = Driver::State;
  const State found = arm_bells() ? drive_all(&Driver::settle) : State::restless;
  if (found == State::busy)
    poll(std::min(kFirstSleep * n, kLongestSleep));  // not at all if somebody has called wake() since
  else if (found == State::restless)
    poll(std::min(kFirstNap * n, kLongestNap));
  return found;
}

}  // namespace tutti::runtime

// The loop of the engine's thread:
//   1. run the posted tasks and the timers that are due
//   2. poll the drivers that are not idle
//   3. wait in epoll: not at all after movement, without limit when all drivers are idle; in between it spins, then
//      yields the core, then sleeps 50 us, 100 us, ... up to 1 ms
// Everything but the callbacks runs under one mutex; callbacks run without it.
#include "src/runtime/engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/error.h"
#include "src/base/fd.h"
#include "src/base/log.h"

namespace tutti::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kSpins = 200;     // polls without movement before the core is yielded
constexpr int kYields = 100;    // and before the thread sleeps
constexpr int kPollEvery = 16;  // busy polls per look at the descriptors
constexpr microseconds kFirstSleep{50};
constexpr microseconds kLongestSleep{1000};

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

struct Engine::Impl {
  struct Watch {
    std::function<void(std::uint32_t)> on_ready;
    int running = 0;
  };
  struct Entry {
    Driver* driver;
    bool idle;
  };

  base::Fd epoll, doorbell;
  std::atomic<bool> alive{true};
  std::atomic<bool> stop{false};
  std::atomic<bool> woken{false};   // wake() was called; drivers are to be polled again
  std::atomic<bool> parked{false};  // the thread is in epoll or about to be: ring the doorbell
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

  void ring() {
    woken.store(true);
    if (!parked.load()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(doorbell.get(), &one, sizeof one);
  }

  // Runs what is due; true if anything was.
  bool run_tasks() {
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

  Driver::State drive_all() {
    bool busy = false, moved = false;
    for (std::size_t i = 0;; ++i) {
      Driver* driver = nullptr;
      {
        std::lock_guard lock(mutex);
        while (i < drivers.size() && drivers[i].idle) ++i;
        if (i >= drivers.size()) break;
        running_driver = driver = drivers[i].driver;
      }
      Driver::State state = Driver::State::busy;  // if it fails: called again
      guarded([&] { state = driver->drive(); });
      std::lock_guard lock(mutex);
      running_driver = nullptr;
      for (Entry& entry : drivers)
        if (entry.driver == driver) entry.idle = state == Driver::State::idle;
      busy |= state == Driver::State::busy;
      moved |= state == Driver::State::moved;
      finished.notify_all();
    }
    return moved ? Driver::State::moved : busy ? Driver::State::busy : Driver::State::idle;
  }

  // Waits for descriptors (a negative limit: without end) and serves them; true if one was ready.
  bool poll(microseconds limit) {
    parked.store(true);
    {
      std::lock_guard lock(mutex);
      if (!tasks.empty() || woken.load() || stop.load()) limit = microseconds(0);
      if (!timers.empty()) {
        const auto left = std::chrono::ceil<microseconds>(timers.begin()->first - Clock::now());
        if (limit.count() < 0 || left < limit) limit = std::max(left, microseconds(0));
      }
    }
    std::array<epoll_event, 32> events;
    const int count = wait(events.data(), static_cast<int>(events.size()), limit);
    parked.store(false);
    for (int i = 0; i < count; ++i) serve(events[i].data.fd, events[i].events);
    return count > 0;
  }

  int wait(epoll_event* events, int capacity, microseconds limit) {
    if (limit.count() <= 0) return ::epoll_wait(epoll.get(), events, capacity, limit.count() < 0 ? -1 : 0);
    const timespec time{limit.count() / 1'000'000, limit.count() % 1'000'000 * 1000};
    const int count = ::epoll_pwait2(epoll.get(), events, capacity, &time, nullptr);
    if (count >= 0 || errno != ENOSYS) return count;
    const auto ms = std::min<std::int64_t>((limit.count() + 999) / 1000, 60'000);
    return ::epoll_wait(epoll.get(), events, capacity, static_cast<int>(ms));
  }

  void serve(int fd, std::uint32_t events) {
    if (fd == doorbell.get()) {
      std::uint64_t rings;
      [[maybe_unused]] const ssize_t got = ::read(fd, &rings, sizeof rings);
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

  void loop() {
    thread_id.store(std::this_thread::get_id());
    int still = 0;  // polls of the drivers since something moved
    while (!stop.load()) {
      run_tasks();
      if (woken.exchange(false)) {
        std::lock_guard lock(mutex);
        for (Entry& entry : drivers) entry.idle = false;
      }
      const Driver::State state = drive_all();
      if (state == Driver::State::idle) {
        still = 0;
        poll(microseconds(-1));
        continue;
      }
      still = state == Driver::State::moved ? 0 : still + 1;
      if (still < kSpins) {
        if (still % kPollEvery == 0) poll(microseconds(0));
      } else if (still < kSpins + kYields) {
        ::sched_yield();
        poll(microseconds(0));
      } else {
        poll(std::min(kFirstSleep * (still - kSpins - kYields + 1), kLongestSleep));
        still = std::min(still, kSpins + kYields + 100);
      }
    }
  }
};

namespace {

// The one engine of this process; never destroyed, because a thread may outlive static objects.
struct Registry {
  std::mutex mutex;
  std::weak_ptr<Engine> engine;
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// All signals but those that a fault of the thread itself raises.
sigset_t blocked_signals() {
  sigset_t set;
  sigfillset(&set);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&set, fault);
  return set;
}

}  // namespace

// fork(): the child has no engine thread. It must not keep its parent's sockets open either, because peers take the
// end of a connection for the end of the process; so every watched descriptor is replaced by /dev/null in the child,
// which leaves the numbers to their owners.
struct EngineFork {
  static inline std::shared_ptr<Engine::Impl> held;
  static void prepare() {
    registry().mutex.lock();
    if (auto engine = registry().engine.lock()) held = engine->impl_;
    if (held) held->mutex.lock();
  }
  static void parent() {
    if (held) held->mutex.unlock();
    held.reset();
    registry().mutex.unlock();
  }
  static void child() {
    if (held) {
      held->alive.store(false);
      const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      for (const auto& [fd, watch] : held->watches) ::dup3(null, fd, O_CLOEXEC);
      ::dup3(null, held->epoll.get(), O_CLOEXEC);
      ::dup3(null, held->doorbell.get(), O_CLOEXEC);
      ::close(null);
      held->mutex.unlock();
      new std::shared_ptr<Engine::Impl>(std::move(held));  // its destructor would wait on what fork has broken
    }
    registry().engine.reset();
    registry().mutex.unlock();
  }
};

std::shared_ptr<Engine> Engine::acquire() {
  static const int registered = ::pthread_atfork(EngineFork::prepare, EngineFork::parent, EngineFork::child);
  if (registered != 0) base::throw_errno("cannot register a fork handler", registered);
  std::lock_guard lock(registry().mutex);
  if (auto engine = registry().engine.lock()) return engine;
  std::shared_ptr<Engine> engine(new Engine);
  registry().engine = engine;
  return engine;
}

Engine::Engine() : impl_(std::make_shared<Impl>()) {
  impl_->epoll = base::Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!impl_->epoll) base::throw_errno("cannot create an epoll descriptor");
  impl_->doorbell = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl_->doorbell) base::throw_errno("cannot create an eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = impl_->doorbell.get();
  if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, event.data.fd, &event) != 0) base::throw_errno("epoll_ctl failed");

  const sigset_t blocked = blocked_signals();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  try {
    impl_->thread = new std::thread([impl = impl_] {
      ::pthread_setname_np(::pthread_self(), "tutti-engine");
      impl->loop();
    });
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    base::throw_errno("cannot start the engine's thread", error.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Engine::~Engine() {
  if (!alive()) return;  // the child's copy after fork(): there is no thread to join
  impl_->stop.store(true);
  impl_->ring();
  if (on_thread())
    impl_->thread->detach();
  else
    impl_->thread->join();
  delete impl_->thread;
}

void Engine::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> on_ready) {
  std::lock_guard lock(impl_->mutex);
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    base::throw_errno("cannot watch descriptor " + std::to_string(fd));
  auto watch = std::make_shared<Impl::Watch>();
  watch->on_ready = std::move(on_ready);
  impl_->watches[fd] = std::move(watch);
}

void Engine::rewatch(int fd, std::uint32_t events) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->watches.count(fd)) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_MOD, fd, &event);
}

void Engine::unwatch(int fd) {
  std::shared_ptr<Impl::Watch> watch;
  std::unique_lock lock(impl_->mutex);
  const auto found = impl_->watches.find(fd);
  if (found == impl_->watches.end()) return;
  watch = std::move(found->second);
  impl_->watches.erase(found);
  if (!alive()) return;
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (!on_thread()) impl_->finished.wait(lock, [&] { return watch->running == 0; });
  lock.unlock();  // the callback and what it owns is destroyed without the mutex
}

void Engine::add(Driver* driver) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->drivers.push_back({driver, false});
  }
  impl_->ring();
}

void Engine::remove(Driver* driver) {
  std::unique_lock lock(impl_->mutex);
  std::erase_if(impl_->drivers, [&](const Impl::Entry& entry) { return entry.driver == driver; });
  if (alive() && !on_thread()) impl_->finished.wait(lock, [&] { return impl_->running_driver != driver; });
}

void Engine::wake() { impl_->ring(); }

void Engine::post(std::function<void()> task) {
  if (on_thread()) return task();
  {
    std::lock_guard lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
  }
  impl_->ring();
}

void Engine::after(std::chrono::milliseconds delay, std::function<void()> task) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->timers.emplace(Clock::now() + delay, std::move(task));
  }
  if (!on_thread()) impl_->ring();
}

bool Engine::on_thread() const { return impl_->on_thread(); }

void Engine::serve(std::chrono::milliseconds limit) {
  if (!impl_->run_tasks()) impl_->poll(limit);
}

bool Engine::alive() const { return impl_->alive.load(); }

}  // namespace tutti::runtime

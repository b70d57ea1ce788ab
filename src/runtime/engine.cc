// What callers see of the engine: its birth, its end, what it is told, and what a fork() leaves of it.
#include "src/runtime/engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "src/base/error.h"
#include "src/base/fd.h"
#include "src/runtime/engine_loop.h"

namespace tutti::runtime {
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
      ::dup3(null, held->alarm.get(), O_CLOEXEC);
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
  impl_->alarm = base::Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!impl_->alarm) base::throw_errno("cannot create a timer descriptor");
  for (const int fd : {impl_->doorbell.get(), impl_->alarm.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) base::throw_errno("epoll_ctl failed");
  }

  register_for_barriers();  // free for a process of one thread, milliseconds for one of several

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
  const auto bells = driver->bells();
  for (const int bell : bells) watch(bell, 0, [](std::uint32_t) {});  // armed while the thread sleeps
  {
    std::lock_guard lock(impl_->mutex);
    impl_->drivers.push_back({driver, false, {bells.begin(), bells.end()}});
  }
  impl_->ring();
}

void Engine::remove(Driver* driver) {
  std::unique_lock lock(impl_->mutex);
  std::vector<int> bells;
  for (const Impl::Entry& entry : impl_->drivers)
    if (entry.driver == driver) bells = entry.bells;
  std::erase_if(impl_->drivers, [&](const Impl::Entry& entry) { return entry.driver == driver; });
  if (alive() && !on_thread()) impl_->finished.wait(lock, [&] { return impl_->running_driver != driver; });
  lock.unlock();
  for (const int bell : bells) unwatch(bell);
}

void Engine::wake() { impl_->ring(); }

void Engine::wake_soon() {
  if (impl_->alarm_set.exchange(true)) return;
  const itimerspec soon{{0, 0}, {0, 1'000'000}};
  ::timerfd_settime(impl_->alarm.get(), 0, &soon, nullptr);
}

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
    impl_->timers.emplace(Impl::Clock::now() + delay, std::move(task));
  }
  if (!on_thread()) impl_->ring();
}

bool Engine::on_thread() const { return impl_->on_thread(); }

void Engine::serve(std::chrono::milliseconds limit) {
  if (!impl_->run_tasks()) impl_->poll(limit);
}

std::shared_ptr<SharedPlanner> Engine::planner_for(const planner::World& world) {
  const std::lock_guard lock(planners_mutex_);
  std::erase_if(planners_, [](const auto& known) { return known.expired(); });
  for (const auto& known : planners_)
    if (auto shared = known.lock(); shared != nullptr && shared->world() == world) return shared;
  auto made = std::make_shared<SharedPlanner>(world);
  planners_.push_back(made);
  return made;
}

std::size_t Engine::planners() const {
  const std::lock_guard lock(planners_mutex_);
  return static_cast<std::size_t>(
      std::count_if(planners_.begin(), planners_.end(), [](const auto& known) { return !known.expired(); }));
}

bool Engine::alive() const { return impl_->alive.load(); }

}  // namespace tutti::runtime

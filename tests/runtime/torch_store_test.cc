// Meeting through torchrun's store, against a small store of the test's own.
#include "src/runtime/torch_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>

#include "src/base/socket.h"
#include "tests/runtime/control_ranks.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace tutti::testing;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

// Speaks the protocol as PyTorch 2's agent does: one thread per connection, a wait blocks until its keys are set.
class FakeStore {
 public:
  explicit FakeStore(bool answers = true) : answers_(answers), listener_(base::listen_everywhere()) {
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeStore() {
    stop_ = true;
    changed_.notify_all();
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  std::uint16_t port() const { return base::local_address(listener_.get()).port; }
  std::size_t bad() const { return bad_; }
  std::map<std::string, std::string> contents() {
    std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  void accept_all() {
    while (!stop_) {
      pollfd item{listener_.get(), POLLIN, 0};
      if (::poll(&item, 1, 10) <= 0) continue;
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) threads_.emplace_back([this, fd] { serve(base::Fd(fd)); });
    }
  }

  bool take(int fd, void* into, std::size_t bytes) {
    for (std::size_t got = 0; got < bytes;) {
      pollfd item{fd, POLLIN, 0};
      if (::poll(&item, 1, 10) <= 0) {
        if (stop_) return false;
        continue;
      }
      const ssize_t read = ::recv(fd, static_cast<char*>(into) + got, bytes - got, 0);
      if (read <= 0) return false;
      got += std::size_t(read);
    }
    return true;
  }
  std::uint64_t take_u64(int fd) {
    std::uint64_t value = 0;
    take(fd, &value, sizeof value);
    return value;
  }
  std::string take_text(int fd) {
    std::string text(take_u64(fd) % 100000, '\0');
    take(fd, text.data(), text.size());
    return text;
  }
  void put(int fd, const void* bytes, std::size_t size) {
    [[maybe_unused]] const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
  }

  void serve(base::Fd owned) {
    const int fd = owned.get();
    std::uint8_t type = 0;
    std::uint32_t word = 0;
    if (!take(fd, &type, 1) || type != 0 || !take(fd, &word, 4) || word != 0x3C85F7CE) {
      ++bad_;
      return;
    }
    while (take(fd, &type, 1)) {
      if (type == 1) {
        const std::string key = take_text(fd), value = take_text(fd);
        std::lock_guard lock(mutex_);
        values_[key] = value;
        changed_.notify_all();
      } else if (type == 4) {
        const std::string key = take_text(fd);
        const auto amount = std::int64_t(take_u64(fd));
        std::lock_guard lock(mutex_);
        const std::int64_t sum = counters_[key] += amount;
        put(fd, &sum, sizeof sum);
      } else if (type == 6) {
        if (take_u64(fd) != 1) ++bad_;
        const std::string key = take_text(fd);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || (answers_ && values_.count(key)); });
        if (stop_) return;
        put(fd, "", 1);
      } else if (type == 3) {
        const std::string key = take_text(fd);
        std::lock_guard lock(mutex_);
        const std::string value = values_[key];
        const std::uint64_t size = value.size();
        put(fd, &size, sizeof size);
        put(fd, value.data(), value.size());
      } else {
        ++bad_;
        return;
      }
    }
  }

  const bool answers_;
  base::Fd listener_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> bad_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

Job torchrun_job(int rank, int size, std::uint16_t port, const std::string& restart = "0",
                 const std::string& secret = "") {
  return job_from_environment([=](const char* name) -> std::optional<std::string> {
    const std::map<std::string, std::string> variables{
        {"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)},
        {"MASTER_ADDR", "127.0.0.1"},   {"MASTER_PORT", std::to_string(port)},
        {"TORCHELASTIC_RUN_ID", "run"}, {"TORCHELASTIC_RESTART_COUNT", restart},
        {"TUTTI_SECRET", secret},       {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("ranks under torchrun meet through its store, again and again, and after restarts", "[torch]") {
  FakeStore store;
  for (const char* restart : {"0", "0", "1"}) {
    const auto failures = on_threads(4, [&](int rank) {
      const auto plane = ControlPlane::connect(torchrun_job(rank, 4, store.port(), restart), soon(), {});
      const auto all = plane->all_gather({std::byte(rank)}, soon());
      for (int other = 0; other < 4; ++other) require(all[std::size_t(other)] == Bytes{std::byte(other)}, "the blob");
      plane->leave(0);
    });
    CHECK(failures == std::vector<std::string>(4));
  }
  CHECK(store.bad() == 0);
  const auto contents = store.contents();
  CHECK(contents.size() == 3);
  CHECK(contents.count("/tutti/torchrun run run restart 0/meeting 2") == 1);
  CHECK(contents.count("/tutti/torchrun run run restart 1/meeting 1") == 1);
}

TEST_CASE("a rank that comes before the store waits for it", "[torch]") {
  const base::Fd bound = base::listen_everywhere();
  ::shutdown(bound.get(), SHUT_RD);  // nobody listens any more, and nobody else gets the port
  const std::uint16_t port = base::local_address(bound.get()).port;
  std::string failure;
  std::thread early([&] {
    try {
      meet_through_store(torchrun_job(1, 2, port), in(milliseconds(500)));
    } catch (const Error& error) {
      failure = std::string(name_of(error.code())) + " " + error.what();
    }
  });
  early.join();
  CHECK_THAT(failure, Contains("timeout rank 1: torchrun's store at 127.0.0.1:" + std::to_string(port)) &&
                          Contains("cannot be reached: Connection refused"));
}

TEST_CASE("a rank 0 that never publishes is said at the deadline", "[torch]") {
  FakeStore store;
  CHECK_THROWS_WITH(meet_through_store(torchrun_job(1, 2, store.port()), in(milliseconds(200))),
                    Contains("rank 0 has not left its address"));
}

TEST_CASE("ranks with different secrets do not meet through the store", "[torch]") {
  FakeStore store;
  const auto failures = on_threads(2, [&](int rank) {
    const Job job = torchrun_job(rank, 2, store.port(), "0", std::string(64, rank ? 'a' : 'b'));
    ControlPlane::connect(job, in(milliseconds(rank ? 20000 : 800)), {});
  });
  CHECK_THAT(failures[1], Contains("rank 1: its secret is not that of the job at "));
  CHECK_THAT(failures[0], Contains("rank 1 of 2"));
}

TEST_CASE("what is not a store is told apart", "[torch]") {
  const base::Fd listener = base::listen_everywhere();
  std::thread closer([&] {
    pollfd item{listener.get(), POLLIN, 0};
    ::poll(&item, 1, 10000);
    base::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  });
  CHECK_THROWS_WITH(
      meet_through_store(torchrun_job(1, 2, base::local_address(listener.get()).port), in(milliseconds(5000))),
      Contains("must be the store of PyTorch 2.1 or newer") || Contains("broke the connection"));
  closer.join();
}

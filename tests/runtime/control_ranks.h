// Ranks for tests of the control plane: threads of this process, or children of it.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/socket.h"
#include "src/runtime/control_plane.h"
#include "src/runtime/rendezvous_auth.h"
#include "src/runtime/wire.h"
#include "tutti/error.h"

namespace tutti::testing {

inline std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
inline std::chrono::steady_clock::time_point soon() { return in(std::chrono::seconds(60)); }

inline void require(bool fact, const std::string& what) {
  if (!fact) throw std::runtime_error("not so: " + what);
}

inline runtime::RankState state_of(const runtime::OperationRecord& current, bool running, const std::string& waiting) {
  runtime::RankState state;
  state.current = current;
  state.running = running;
  state.waiting = waiting;
  return state;
}

inline std::unique_ptr<runtime::ControlPlane> connect(const UniqueId& id, int rank, int size,
                                                      std::function<runtime::RankState()> state = {},
                                                      std::chrono::steady_clock::time_point deadline = soon()) {
  return runtime::ControlPlane::connect(runtime::job_from_unique_id(id, rank, size), deadline, std::move(state));
}

// Below the ports that the kernel hands out, so that no other test is given it meanwhile.
inline std::uint16_t free_port() {
  static int tries = ::getpid() * 37;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(12'000 + ++tries % 18'000);
    try {
      base::listen_everywhere(port);
      return port;
    } catch (const Error&) {
    }
  }
}

// Ranks of a launched job that meet at `host`:port.
inline runtime::Job launched(int rank, int size, std::uint16_t port, const std::string& host = "127.0.0.1",
                             const std::string& secret = "secret", const std::string& name = "job") {
  runtime::Job job;
  job.rank = rank;
  job.size = size;
  job.source = "test";
  job.meeting.hosts = {host};
  job.meeting.port = port;
  job.meeting.secret = runtime::secret_from_text(secret);
  job.meeting.name = name;
  job.meeting.serve = rank == 0;
  return job;
}

// Runs body(rank) on one thread per rank; element i is the error text of rank i, empty when there was none.
inline std::vector<std::string> on_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

// A value that this process and its children share.
template <class T>
class Shared {
 public:
  Shared() {
    void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    value_ = new (memory) T{};
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(value_, sizeof(T)); }
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
};

// Room for exactly `more` new descriptors, while the object lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    std::vector<int> numbers;
    for (int i = 0; i <= more; ++i) numbers.push_back(::dup(0));
    for (const int number : numbers) ::close(number);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{static_cast<rlim_t>(numbers.back()), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// A child process that runs body and says its error on a pipe.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      std::string text;
      try {
        body();
      } catch (const std::exception& error) {
        text = error.what();
      }
      [[maybe_unused]] const ssize_t written = ::write(ends[1], text.data(), text.size());
      ::_exit(text.empty() ? 0 : 1);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (pipe_ >= 0) ::close(pipe_);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  // As /proc/<pid>/stat has it: 'T' is stopped.
  char state() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto name_end = text.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
  }
  // Waits for the end; the error text, or "killed by signal 9".
  std::string wait() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(pipe_, buffer, sizeof buffer)) > 0;) text.append(buffer, std::size_t(got));
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    return text;
  }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
};

// Runs body(rank) in one child per rank and returns their error texts.
inline std::vector<std::string> in_children(int size, const std::function<void(int)>& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) children.emplace_back([&, rank] { body(rank); });
  std::vector<std::string> texts;
  for (Child& child : children) texts.push_back(child.wait());
  return texts;
}

}  // namespace tutti::testing

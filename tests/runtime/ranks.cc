#include "tests/runtime/ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <thread>

namespace tutti::test {

void on_threads(int size, const std::function<void(Communicator&)>& body, const Config& config) {
  std::vector<Communicator> communicators = Communicator::connect_threads(size, config);
  std::vector<std::string> failures(communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(communicators[rank]);
      } catch (const std::exception& error) {
        failures[rank] = "rank " + std::to_string(rank) + ": " + error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures)
    if (!failure.empty()) throw std::runtime_error(failure);
}

namespace {

[[noreturn]] void child(int rank, int size, const UniqueId& id, const Config& config,
                        const std::function<std::string(Communicator&)>& body, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  std::string text;
  try {
    Communicator communicator = Communicator::connect(id, rank, size, config);
    text = body(communicator);
  } catch (const std::exception& error) {
    status = 1;
    text = error.what();
  }
  [[maybe_unused]] const ssize_t written = ::write(out, text.data(), text.size());
  ::_exit(status);
}

std::string read_all(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return text;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

std::vector<Ending> in_processes(int size, const std::function<std::string(Communicator&)>& body, const Config& config,
                                 int seconds) {
  // A process of its own makes the id and keeps its rendezvous open, so that this one stays free of threads to fork.
  std::vector<Ending> endings(static_cast<std::size_t>(size));
  int id_pipe[2];
  if (::pipe(id_pipe) != 0) throw std::runtime_error("pipe");
  const pid_t host = ::fork();
  if (host == 0) {
    const UniqueId id = UniqueId::create();
    [[maybe_unused]] const ssize_t written = ::write(id_pipe[1], id.bytes.data(), id.bytes.size());
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing outlives a test that is killed
    for (;;) ::pause();
  }
  UniqueId id;
  if (::read(id_pipe[0], id.bytes.data(), id.bytes.size()) != static_cast<ssize_t>(id.bytes.size()))
    throw std::runtime_error("no unique id");
  ::close(id_pipe[0]);
  ::close(id_pipe[1]);
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int fd : pipes) ::close(fd);
      child(rank, size, id, config, body, ends[1]);
    }
    ::close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    endings[rank].message = read_all(pipes[rank], deadline);
    ::close(pipes[rank]);
    if (std::chrono::steady_clock::now() >= deadline) {
      ::kill(pids[rank], SIGCONT);
      ::kill(pids[rank], SIGKILL);
    }
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    if (WIFEXITED(status)) endings[rank].status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) endings[rank].signal = WTERMSIG(status);
  }
  ::kill(host, SIGKILL);
  ::waitpid(host, nullptr, 0);
  return endings;
}

void stop_for(unsigned seconds) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {
    ::sleep(seconds);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::kill(self, SIGSTOP);
}

}  // namespace tutti::test

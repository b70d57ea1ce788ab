#include "bench/compare/runner.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "bench/compare/report.h"
#include "bench/perf/peer.h"
#include "src/base/error.h"
#include "src/base/fd.h"
#include "tutti/communicator.h"

namespace tutti::compare {
namespace {

// A file without a name, which vanishes with this process however it ends. Its ranks write it through /proc.
class Mailbox {
 public:
  Mailbox() : file_(::memfd_create("tutti-compare", MFD_CLOEXEC)) {
    if (!file_) base::throw_errno("cannot create a file in memory (memfd_create)");
  }
  std::string path() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get()); }

 private:
  base::Fd file_;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

std::string this_program() {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error)
    throw Error(ErrorCode::system_error, "cannot find this program through /proc/self/exe: " + error.message());
  return self;
}

// Runs a command to its end; it ends with this process. Returns its exit status, 128 + number for a signal.
int run_command(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) base::throw_errno("cannot start the ranks");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) base::throw_errno("cannot wait for the ranks");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string joined(const std::vector<std::size_t>& sizes) {
  std::vector<std::string> texts;
  for (const std::size_t size : sizes) texts.push_back(std::to_string(size));
  return joined(texts);
}

std::vector<std::string> worker_command(const Experiment& experiment) {
  std::vector<std::string> command{"compare",
                                   "--sizes",
                                   joined(experiment.sizes),
                                   "--rounds",
                                   std::to_string(experiment.rounds),
                                   "--type",
                                   std::string(name_of(experiment.type)),
                                   "--op",
                                   std::string(name_of(experiment.op)),
                                   "--algos",
                                   experiment.algorithms.empty() ? "all" : joined(experiment.algorithms)};
  if (experiment.bind) command.emplace_back("--bind");
  return command;
}

Outcome measure_with_threads(int ranks, const Measure& measure) {
  std::vector<Communicator> communicators = Communicator::connect_threads(ranks);
  Outcome outcome;
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < communicators.size(); ++r)
    threads.emplace_back([&, r] {
      Communicator own = std::move(communicators[r]);
      perf::CommunicatorPeer peer(own);
      try {
        Outcome mine = measure(peer);
        if (r == 0) outcome = std::move(mine);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();  // the others' errors follow from the first
        }
        own.abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return outcome;
}

Outcome measure_with_processes(int ranks, const std::vector<std::string>& worker) {
  const Mailbox mailbox;
  const std::string self = this_program(), result = mailbox.path();
  std::vector<std::string> command{self, "run", "-n", std::to_string(ranks), "--no-prefix", "--", self};
  command.insert(command.end(), worker.begin(), worker.end());
  command.insert(command.end(), {"--worker-result", result});
  const int status = run_command(command);
  if (status != 0)
    throw Error(ErrorCode::system_error, "the measurement with " + std::to_string(ranks) +
                                             " ranks failed with exit status " + std::to_string(status) +
                                             "; the ranks' messages are above");
  std::ifstream file(result);
  std::stringstream text;
  text << file.rdbuf();
  return outcome_from_json_text(text.str());
}

void measure_as_worker(const std::string& result_path, const Measure& measure) {
  Communicator communicator = Communicator::connect();
  perf::CommunicatorPeer peer(communicator);
  const Outcome outcome = measure(peer);
  if (communicator.rank() == 0) write_file(result_path, to_json_text(outcome));
}

}  // namespace tutti::compare

#include "tools/tutti/run_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "src/base/error.h"
#include "src/topology/topology.h"
#include "tools/tutti/run_guard.h"
#include "tools/tutti/run_input.h"
#include "tools/tutti/run_output.h"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

// How long a remote shell has to end by itself after KILL was passed on, and between searches for stray processes.
constexpr std::chrono::milliseconds kSecondKill{1000};
constexpr std::chrono::milliseconds kSearchEvery{50};
constexpr int kMostKills = 10;  // a process that outlives so many hangs in the kernel

// Signals that end the job, and those that are only passed on. Where the launcher was told to ignore one (nohup), it
// and its ranks keep ignoring it.
constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kOtherSignals[] = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

// Blocks the launcher's signals, to be read from a descriptor; puts the mask back at the end.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : kEndingSignals) add(set, number);
    for (const int number : kOtherSignals) add(set, number);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = base::Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) base::throw_errno("cannot make a signalfd");
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  std::optional<int> next() const {
    signalfd_siginfo info{};
    if (read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  static void add(sigset_t& set, int number) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN || number == SIGCHLD) sigaddset(&set, number);
  }

  sigset_t before_{};
  base::Fd fd_;
};

bool same_file(int a, int b) {
  struct stat left {};
  struct stat right {};
  return fstat(a, &left) == 0 && fstat(b, &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

base::Fd open_or_throw(const std::string& path, int flags) {
  base::Fd fd(open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!fd) base::throw_errno("cannot open '" + path + "'");
  return fd;
}

std::string seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + topology::format_ranges(ranks);
}

std::string line_prefix(int rank) {
  std::string prefix = "[";
  return prefix.append(std::to_string(rank)).append("] ");
}

class Launcher {
 public:
  Launcher(const std::vector<RankCommand>& commands, const LaunchOptions& options)
      : commands_(commands), options_(options), guard_("TUTTI_SECRET=" + options.secret) {}
  ~Launcher() { kill_everything(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int run() {
    const TimePoint started = Clock::now();
    start_all();
    if (options_.timeout) timeout_at_ = started + *options_.timeout;
    while (!finished()) {
      wait_for_events();
      while (const auto number = signals_.next()) handle_signal(*number);
      note_endings();
      keep_deadlines();
    }
    return status_.value_or(0);
  }

 private:
  // --- starting ---
  void start_all() {
    try {
      for (const RankCommand& command : commands_) start(command);
    } catch (const CannotExecute& failure) {
      fail(failure.status, failure.message);
      begin_ending(SIGKILL);
    }
  }

  void start(const RankCommand& command) {
    base::Fd in = input_for(command);
    base::Fd out;
    base::Fd err;
    Standard standard{in ? in.get() : STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    std::vector<RankStream> streams;
    if (!options_.output_directory.empty()) {
      const std::string file = options_.output_directory + "/rank-" + std::to_string(command.rank);
      out = open_or_throw(file + ".out", O_WRONLY | O_CREAT | O_TRUNC);
      err = open_or_throw(file + ".err", O_WRONLY | O_CREAT | O_TRUNC);
    } else if (options_.prefix || commands_.size() > 1) {
      const std::string prefix = options_.prefix ? line_prefix(command.rank) : "";
      out = stream(streams, *out_, prefix);
      err = stream(streams, *err_, prefix);
    }
    if (out) standard.out = out.get();
    if (err) standard.err = err.get();
    RankProcess process = start_rank(command, standard, signals_.before());
    process.control = std::move(control_);
    processes_.push_back(std::move(process));
    for (RankStream& each : streams) streams_.push_back(std::move(each));
  }

  // A pipe whose reading end becomes a stream; returns its writing end.
  static base::Fd stream(std::vector<RankStream>& streams, Sink& sink, const std::string& prefix) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) base::throw_errno("cannot make a pipe for the output of a rank");
    streams.emplace_back(base::Fd(ends[0]), sink, prefix);
    return base::Fd(ends[1]);
  }

  // Nothing: the launcher's own standard input.
  base::Fd input_for(const RankCommand& command) {
    if (!command.host.empty()) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) base::throw_errno("cannot make a pipe to a remote shell");
      control_ = base::Fd(ends[1]);
      fcntl(ends[1], F_SETFL, O_NONBLOCK);
      const std::string line = options_.secret + "\n";
      [[maybe_unused]] const ssize_t written = write(ends[1], line.data(), line.size());
      return base::Fd(ends[0]);
    }
    if (command.rank != 0) return open_or_throw("/dev/null", O_RDONLY);
    return isatty(STDIN_FILENO) != 0 ? input_.open_pipe() : base::Fd();
  }

  // --- the loop ---
  void wait_for_events() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    const auto watch = [&](bool wanted, int fd, short events) {
      if (wanted) polled.push_back({fd, events, 0});
      return wanted ? polled.size() - 1 : 0;
    };
    const std::size_t out = watch(!out_->empty(), out_->fd(), POLLOUT);
    const std::size_t err = err_ == out_ ? 0 : watch(!err_->empty(), err_->fd(), POLLOUT);
    const std::size_t keyboard = watch(input_.wants_read(), STDIN_FILENO, POLLIN);
    const std::size_t to_rank = watch(input_.wants_write(), input_.fd(), POLLOUT);
    std::vector<std::size_t> entries;
    for (const RankStream& each : streams_) entries.push_back(watch(each.wants_read(), each.fd(), POLLIN));
    poll(polled.data(), polled.size(), milliseconds_to_wait());
    const auto ready = [&](std::size_t entry) { return entry != 0 && polled[entry].revents != 0; };
    if (ready(out)) out_->write_some();
    if (ready(err)) err_->write_some();
    if (ready(keyboard)) input_.read_some();
    if (ready(to_rank)) input_.write_some();
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (ready(entries[i]) || (gone_ && streams_[i].wants_read()) ||
          (streams_[i].open() && streams_[i].sink().broken()))
        streams_[i].read_some(gone_);
  }

  int milliseconds_to_wait() const {
    if (gone_ && std::any_of(streams_.begin(), streams_.end(), [](const auto& each) { return each.wants_read(); }))
      return 0;
    TimePoint next = Clock::now() + std::chrono::milliseconds(500);  // a safety net: nothing depends on it
    for (const auto& time : {timeout_at_, kill_at_, search_at_, give_up_at_})
      if (time) next = std::min(next, *time);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, wait.count()));
  }

  bool finished() const {
    return gone_ && out_->empty() && err_->empty() &&
           std::none_of(streams_.begin(), streams_.end(), [](const auto& each) { return each.open(); });
  }

  // --- events ---
  void handle_signal(int number) {
    if (number == SIGCHLD) return;
    if (number == SIGTSTP) {
      send_all(SIGTSTP);
      kill(getpid(), SIGSTOP);
      return send_all(SIGCONT);
    }
    if (std::find(std::begin(kEndingSignals), std::end(kEndingSignals), number) == std::end(kEndingSignals))
      return send_all(number);
    if (gone_) return give_up_output();
    if (number == SIGINT && ending_) return kill_now("a second SIGINT");
    if (!status_) fail(128 + number, "got " + describe_signal(number) + ", ending " + ranks_text(running()));
    begin_ending(number);
  }

  // Of several that ended since the last look, one killed by a signal is the likelier cause of the others' end.
  void note_endings() {
    std::vector<const RankProcess*> failures;
    bool any = false;
    for (RankProcess& process : processes_) {
      if (!check_ended(process)) continue;
      any = true;
      process.control.reset();
      if (process.rank == 0) input_.close();
      if (failed(process)) failures.push_back(&process);
    }
    if (!failures.empty() && !status_) {
      const auto killed = std::find_if(failures.begin(), failures.end(),
                                       [](const auto* each) { return each->ending->si_code != CLD_EXITED; });
      const RankProcess& first = killed == failures.end() ? *failures.front() : **killed;
      const std::vector<int> others = running();
      fail(exit_status(first), describe_ending(first) + (others.empty() ? "" : "; ending " + ranks_text(others)));
      begin_ending(SIGTERM);
    }
    if (any && running().empty()) search_at_ = Clock::now();
  }

  void keep_deadlines() {
    const TimePoint now = Clock::now();
    if (timeout_at_ && now >= *timeout_at_) {
      timeout_at_.reset();
      if (!running().empty() && !status_) {
        fail(kTimedOut, "timed out after " + seconds(*options_.timeout) + "; still running: " + ranks_text(running()));
        begin_ending(SIGTERM);
      }
    }
    if (kill_at_ && now >= *kill_at_) kill_now("no end within " + seconds(options_.grace));
    if (kills_ > kMostKills) declare_gone();
    if (give_up_at_ && now >= *give_up_at_) give_up_output();
    if (processes_.empty() && !search_at_) search_at_ = now;  // not one could be started
    if (search_at_ && now >= *search_at_ && !gone_) end_strays(now);
  }

  // After the last rank: what ranks have left running is ended as they would have been.
  void end_strays(TimePoint now) {
    const std::vector<pid_t> strays = processes_with("TUTTI_SECRET=" + options_.secret);
    search_at_ = now + kSearchEvery;
    if (strays.empty()) {
      kill_everything();
      declare_gone();
    } else if (!strays_told_) {
      strays_told_ = true;
      for (const pid_t pid : strays) kill(pid, SIGTERM);
      if (!kill_at_) kill_at_ = now + options_.grace;
    }
  }

  // --- ending ---
  std::vector<int> running() const {
    std::vector<int> ranks;
    for (const RankProcess& process : processes_)
      if (!process.ending) ranks.push_back(process.rank);
    return ranks;
  }

  void fail(int status, const std::string& message) {
    status_ = status;
    say(message);
  }

  void say(const std::string& message) { err_->push("tutti run: " + message + "\n"); }

  void send_all(int number) {
    for (const RankProcess& process : processes_) send_signal(process, number);
  }

  void begin_ending(int number) {
    send_all(number);
    if (!ending_) kill_at_ = Clock::now() + (number == SIGKILL ? kSecondKill : options_.grace);
    ending_ = true;
  }

  // May come again: a remote shell is first told to kill, then killed itself.
  void kill_now(const std::string& why) {
    ending_ = true;
    kill_at_ = Clock::now() + kSecondKill;
    if (kills_++ == 0 && !running().empty()) say("killing " + ranks_text(running()) + " (" + why + ")");
    send_all(SIGKILL);
    if (kills_ > 1) kill_everything();
    for (const pid_t pid : processes_with("TUTTI_SECRET=" + options_.secret)) kill(pid, SIGKILL);
  }

  // No process of the job is left, or what is left cannot be killed. What was printed is still passed on; but a reader
  // that takes nothing does not hold up a job that failed.
  void declare_gone() {
    gone_ = true;
    search_at_.reset();
    kill_at_.reset();
    timeout_at_.reset();
    if (kills_ > kMostKills && !running().empty()) say(ranks_text(running()) + " cannot be killed; leaving");
    kills_ = 0;
    if (status_) give_up_at_ = Clock::now() + options_.grace;
  }

  void give_up_output() {
    out_->give_up();
    err_->give_up();
  }

  void kill_everything() {
    for (const RankProcess& process : processes_) kill(-process.pid, SIGKILL);
  }

  const std::vector<RankCommand>& commands_;
  const LaunchOptions& options_;
  Guard guard_;
  Signals signals_;
  std::shared_ptr<Sink> out_ = std::make_shared<Sink>(STDOUT_FILENO);
  std::shared_ptr<Sink> err_ =  // one queue where both go to one place, or lines would be cut
      same_file(STDOUT_FILENO, STDERR_FILENO) ? out_ : std::make_shared<Sink>(STDERR_FILENO);
  TerminalInput input_;
  base::Fd control_;  // of the rank being started
  std::vector<RankProcess> processes_;
  std::vector<RankStream> streams_;
  std::optional<int> status_;  // set by the first failure
  bool ending_ = false;        // all have been told to end
  bool strays_told_ = false;
  bool gone_ = false;  // no process of the job is left
  int kills_ = 0;
  std::optional<TimePoint> timeout_at_;
  std::optional<TimePoint> kill_at_;
  std::optional<TimePoint> search_at_;
  std::optional<TimePoint> give_up_at_;
};

}  // namespace

int launch(const std::vector<RankCommand>& commands, const LaunchOptions& options) {
  return Launcher(commands, options).run();
}

}  // namespace tutti::tools

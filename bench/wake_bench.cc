// How long a rank that sleeps takes to be woken, and what an open communicator costs while nothing happens.
//
//   wake_bench                                          ranks as threads, as processes, and as processes over TCP
//   wake_bench --kind tcp --rounds 500 --quiet-ms 50 --idle-s 1 --json wake.json
//
// Two ranks. Rank 1 sleeps for --quiet-ms; then rank 0 takes the time, does what wakes it, and spins until it sees in
// shared memory what rank 1 does next. Microseconds:
//
//   reference   rank 1 sleeps in poll() at an eventfd, or at a TCP socket of the loopback, which rank 0 writes: what
//   the
//               system takes. The ratio of the others is to its median.
//   blocking    rank 1 sleeps in an all_reduce of 8 bytes, rank 0 calls it: until rank 1 has returned
//   async       rank 1 has submitted it and computes nothing, so its engine's thread sleeps; rank 0 submits it: until
//               rank 1's result is there
//
// The rounds of the three take turns. Each rank is bound to a core of its own (--no-bind: not), because the system
// likes to wake a thread on the core of the one that wakes it; then the sleeper waits for that one to stop spinning.
// Then, for --idle-s seconds each, the processor time and the voluntary context switches per second of rank 1's process
// (of threads: of both ranks' process):
//
//   idle        the communicator is open, nothing is called
//   waiting     rank 1 waits in an all_reduce
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "bench/json_file.h"
#include "bench/peers/harness.h"
#include "bench/perf/statistics.h"
#include "src/base/error.h"
#include "tutti/communicator.h"

namespace {

using Clock = std::chrono::steady_clock;
using tutti::bench::Json;

constexpr unsigned kPatience = 60;  // seconds beyond the measured ones until ranks that do not end are given up
constexpr int kMostRounds = 100'000;
constexpr std::array<const char*, 3> kWakes{"reference", "blocking", "async"};
constexpr std::array<const char*, 2> kStates{"idle", "waiting"};

struct Options {
  std::vector<std::string> kinds{"threads", "processes", "tcp"};
  int rounds = 200;
  int quiet_ms = 20;
  double idle_s = 10;
  bool no_bind = false;
  std::string json;
};

struct Cost {
  double cpu_percent = 0;
  double switches_per_s = 0;
};

// What the ranks share, in memory that children of fork() share too.
struct Page {
  pthread_barrier_t barrier;
  tutti::UniqueId id{};
  std::atomic<std::uint32_t> woken{0};    // the round in which rank 1 has returned
  std::array<std::uint32_t, 2> result{};  // where rank 1's all_reduce puts it
  std::array<std::array<double, kMostRounds>, kWakes.size()> us{};
  std::array<Cost, kStates.size()> cost{};

  static Page* make() {
    void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) tutti::base::throw_errno("mmap");
    Page* const page = new (memory) Page;
    pthread_barrierattr_t attributes;
    ::pthread_barrierattr_init(&attributes);
    ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    ::pthread_barrier_init(&page->barrier, &attributes, 2);
    ::pthread_barrierattr_destroy(&attributes);
    return page;
  }
  void wait() { ::pthread_barrier_wait(&barrier); }
};

// The ends of what the reference wakes by: rank 0 writes to the first, rank 1 sleeps at the second.
std::array<int, 2> make_ends(bool tcp) {
  if (!tcp) {
    const int fd = ::eventfd(0, EFD_NONBLOCK);
    if (fd < 0) tutti::base::throw_errno("eventfd");
    return {fd, fd};
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int near = ::socket(AF_INET, SOCK_STREAM, 0);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, generic, length) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, generic, &length) != 0 || ::connect(near, generic, length) != 0)
    tutti::base::throw_errno("a TCP connection of the loopback");
  const int far = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
  if (far < 0) tutti::base::throw_errno("accept");
  ::close(listener);
  return {near, far};
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double voluntary_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_nvcsw);
}

class Rank {
 public:
  Rank(Page& page, int rank, std::array<int, 2> ends, const Options& options, tutti::Communicator& world)
      : page_(page), rank_(rank), ends_(ends), options_(options), world_(world) {}

  void run() {
    for (int warm = 0; warm < 3; ++warm) blocking(0);
    for (int round = 0; round < options_.rounds; ++round) {
      reference(round);
      blocking(round);
      async(round);
    }
    page_.wait();
    cost(0, [] {});
    cost(1, [this] { reduce(); });
  }

 private:
  // Rank 1 does `sleep`, rank 0 `wake` after a silence; the time until rank 1 has done and said so.
  template <class Sleep, class Wake, class Seen>
  void measure(std::size_t what, int round, const Sleep& sleep, const Wake& wake, const Seen& seen) {
    page_.woken.store(0);
    page_.result = {};
    page_.wait();
    if (rank_ == 1) {
      sleep();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.quiet_ms));
      const Clock::time_point start = Clock::now();
      wake();
      while (!seen()) {
      }
      page_.us[what][static_cast<std::size_t>(round)] =
          std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    page_.wait();
  }

  bool woken() const { return page_.woken.load(std::memory_order_acquire) != 0; }

  void reference(int round) {
    const auto sleep = [this] {
      pollfd item{ends_[1], POLLIN, 0};
      ::poll(&item, 1, -1);
      std::uint64_t number = 0;
      if (::read(ends_[1], &number, sizeof number) != sizeof number) tutti::base::throw_errno("read");
      page_.woken.store(1, std::memory_order_release);
    };
    const auto wake = [this] {
      const std::uint64_t one = 1;
      if (::write(ends_[0], &one, sizeof one) != sizeof one) tutti::base::throw_errno("write");
    };
    measure(0, round, sleep, wake, [this] { return woken(); });
  }

  void blocking(int round) {
    const auto sleep = [this] {
      reduce();
      page_.woken.store(1, std::memory_order_release);
    };
    measure(
        1, round, sleep, [this] { reduce(); }, [this] { return woken(); });
  }

  void async(int round) {
    tutti::Work work;
    const auto sleep = [this, &work] { work = start(); };
    const auto seen = [this] { return std::atomic_ref(page_.result[1]).load(std::memory_order_acquire) == 3; };
    measure(
        2, round, sleep, [this, &work] { work = start(); }, seen);
    work.wait();
  }

  std::uint32_t* output() { return rank_ == 1 ? page_.result.data() : own_.data(); }
  void reduce() { world_.all_reduce(input_.data(), output(), 2, tutti::DataType::uint32); }
  tutti::Work start() { return world_.all_reduce_async(input_.data(), output(), 2, tutti::DataType::uint32); }

  template <class Call>
  void cost(std::size_t state, const Call& call) {
    const std::chrono::duration<double> length(options_.idle_s);
    page_.wait();
    if (rank_ == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for the barrier's last moves
    const double cpu = cpu_seconds(), switches = voluntary_switches();
    if (rank_ == 0 || state == 0) std::this_thread::sleep_for(length);
    call();
    if (rank_ == 1)
      page_.cost[state] = {100 * (cpu_seconds() - cpu) / options_.idle_s,
                           (voluntary_switches() - switches) / options_.idle_s};
    page_.wait();
  }

  Page& page_;
  const int rank_;
  const std::array<int, 2> ends_;
  const Options& options_;
  tutti::Communicator& world_;
  const std::array<std::uint32_t, 2> input_{1, static_cast<std::uint32_t>(rank_ + 1)};
  std::array<std::uint32_t, 2> own_{};
};

// A rank that fails ends its process: the other would wait for it.
void run_rank(Page& page, int rank, std::array<int, 2> ends, const Options& options, const std::string& kind) try {
  tutti::Config config = tutti::Config::from_environment();
  config.transport = kind == "tcp" ? "tcp" : "shm";
  if (!options.no_bind && !tutti::peers::bind_to_cpu(rank)) tutti::base::throw_errno("sched_setaffinity");
  if (rank == 0) page.id = tutti::UniqueId::create();
  page.wait();
  tutti::Communicator world = tutti::Communicator::connect(page.id, rank, 2, config);
  Rank(page, rank, ends, options, world).run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "wake_bench: rank %d: %s\n", rank, error.what());
  std::_Exit(1);
}

void run_process(Page& page, int first, int count, std::array<int, 2> ends, const Options& options,
                 const std::string& kind) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kPatience + static_cast<unsigned>(2 * options.idle_s + 6e-3 * options.rounds * options.quiet_ms));
  {
    std::vector<std::jthread> ranks;
    for (int rank = first; rank < first + count; ++rank)
      ranks.emplace_back([&, rank] { run_rank(page, rank, ends, options, kind); });
  }
  std::_Exit(0);
}

// Measures one kind in processes of its own.
void measure(Page& page, const Options& options, const std::string& kind) {
  const auto ends = make_ends(kind == "tcp");
  const int per_process = kind == "threads" ? 2 : 1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; rank += per_process) {
    const pid_t child = ::fork();
    if (child == 0) run_process(page, rank, per_process, ends, options, kind);
    if (child < 0) tutti::base::throw_errno("fork");
    children.push_back(child);
  }
  bool good = true;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    std::erase(children, ended);
    good = good && ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good)
      for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  if (ends[1] != ends[0]) ::close(ends[1]);
  if (!good) throw tutti::Error(tutti::ErrorCode::system_error, "a rank's process has failed");
}

Json report(const Page& page, const Options& options, const std::string& kind) {
  Json results = Json::array();
  double reference = 0;
  for (std::size_t what = 0; what < kWakes.size(); ++what) {
    const std::vector<double> us(page.us[what].begin(), page.us[what].begin() + options.rounds);
    const double low = tutti::perf::quantile(us, 0.25), median = tutti::perf::median(us);
    const double high = tutti::perf::quantile(us, 0.75);
    if (what == 0) reference = median;
    std::printf("%-9s  %-9s  %9.1f  %9.1f  %9.1f  %9.2f\n", kind.c_str(), kWakes[what], low, median, high,
                median / reference);
    results.push_back({{"kind", kind},
                       {"wake", kWakes[what]},
                       {"q1_us", low},
                       {"median_us", median},
                       {"q3_us", high},
                       {"ratio", median / reference},
                       {"rounds_us", us}});
  }
  for (std::size_t state = 0; state < kStates.size(); ++state) {
    const Cost& cost = page.cost[state];
    std::printf("%-9s  %-9s  %9.3f %% of a core, %.1f context switches a second\n", kind.c_str(), kStates[state],
                cost.cpu_percent, cost.switches_per_s);
    results.push_back({{"kind", kind},
                       {"state", kStates[state]},
                       {"cpu_percent", cost.cpu_percent},
                       {"switches_per_s", cost.switches_per_s}});
  }
  std::fflush(stdout);
  return results;
}

int run(const Options& options) {
  Json results = Json::array();
  std::printf("# microseconds; %d rounds after %d ms of silence\n", options.rounds, options.quiet_ms);
  std::printf("%-9s  %-9s  %9s  %9s  %9s  %9s\n", "kind", "wake", "q1", "median", "q3", "ratio");
  for (const std::string& kind : options.kinds) {
    Page* const page = Page::make();
    measure(*page, options, kind);
    for (Json& row : report(*page, options, kind)) results.push_back(std::move(row));
    ::munmap(page, sizeof(Page));
  }
  return tutti::bench::write_results("wake_bench", options.json, results);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Times how sleeping ranks are woken, and what idle communicators cost.");
  app.add_option("--kind", options.kinds, "threads, processes, tcp (processes)")
      ->delimiter(',')
      ->check(CLI::IsMember({"threads", "processes", "tcp"}));
  app.add_option("--rounds", options.rounds, "of each wake")->check(CLI::Range(1, kMostRounds));
  app.add_option("--quiet-ms", options.quiet_ms, "of silence before it")->check(CLI::Range(1, 10'000));
  app.add_option("--idle-s", options.idle_s, "seconds of each idle state")->check(CLI::Range(0.01, 3600.0));
  app.add_flag("--no-bind", options.no_bind, "leaves the ranks' cores to the system");
  app.add_option("--json", options.json, "file to write the results to");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "wake_bench: %s\n", error.what());
  return 1;
}

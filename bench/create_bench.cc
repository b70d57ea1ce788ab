// How long a communicator takes to be made, to run its first all-reduce (which plans and connects), and to be
// destroyed, with ranks as threads of one process and as processes of their own.
//
//   create_bench                                       2 and 64 ranks, both kinds
//   create_bench --ranks 2 --kind processes --rounds 50 --json create.json
//
// Every round starts its ranks anew (a process that has made a communicator before makes the next one faster), lets
// them wait for each other, and takes the slowest rank's time of each phase; starting them is not counted. The unique
// id is made by rank 0 within `create`.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/json_file.h"
#include "bench/perf/statistics.h"
#include "src/base/error.h"
#include "tutti/communicator.h"

namespace {

using Clock = std::chrono::steady_clock;
using tutti::bench::Json;

constexpr int kMostRanks = 512;
constexpr unsigned kPatience = 120;  // seconds until a round that does not end is given up
constexpr std::size_t kElements = 256;
constexpr std::array<const char*, 4> kPhases{"create", "first all_reduce", "second all_reduce", "destroy"};
using Times = std::array<double, kPhases.size()>;  // milliseconds of each phase

// What the ranks of a round share; in memory that children of fork() share too.
class Page {
 public:
  static Page* make(int ranks) {
    void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) tutti::base::throw_errno("mmap");
    return new (memory) Page(ranks);
  }
  static void drop(Page* page) {
    ::pthread_barrier_destroy(&page->barrier_);
    ::munmap(page, sizeof(Page));
  }

  void wait() { ::pthread_barrier_wait(&barrier_); }

  tutti::UniqueId id{};
  std::array<Times, kMostRanks> times{};

 private:
  explicit Page(int ranks) {
    pthread_barrierattr_t attributes;
    ::pthread_barrierattr_init(&attributes);
    ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    ::pthread_barrier_init(&barrier_, &attributes, static_cast<unsigned>(ranks));
    ::pthread_barrierattr_destroy(&attributes);
  }

  pthread_barrier_t barrier_;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void run_rank(Page& page, int rank, int ranks) {
  Times& times = page.times[static_cast<std::size_t>(rank)];
  std::vector<float> data(kElements, 1.0F);
  std::optional<tutti::Communicator> world;
  const auto phase = [&](std::size_t index, const auto& work) {
    page.wait();
    const Clock::time_point start = Clock::now();
    work();
    times[index] = milliseconds_since(start);
  };
  const auto all_reduce = [&] { world->all_reduce(std::span(data)); };
  phase(0, [&] {
    if (rank == 0) page.id = tutti::UniqueId::create();
    page.wait();
    world.emplace(tutti::Communicator::connect(page.id, rank, ranks));
  });
  phase(1, all_reduce);
  phase(2, all_reduce);
  const float expected = static_cast<float>(ranks) * static_cast<float>(ranks);
  if (std::any_of(data.begin(), data.end(), [&](float value) { return value != expected; }))
    throw tutti::Error(tutti::ErrorCode::internal_error, "the sum is wrong");
  phase(3, [&] { world.reset(); });
}

// A rank that fails ends its process: the others would wait for it.
void run_rank_or_end(Page& page, int rank, int ranks) {
  try {
    run_rank(page, rank, ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "create_bench: rank %d: %s\n", rank, error.what());
    std::_Exit(1);
  }
}

void round_of_threads(Page& page, int ranks) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank_or_end(page, rank, ranks); });
}

void round_of_processes(Page& page, int ranks) {
  std::vector<pid_t> children;
  bool good = true;
  for (int rank = 0; rank < ranks && good; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(kPatience);
      run_rank_or_end(page, rank, ranks);
      std::_Exit(0);
    }
    good = child > 0;
    if (good) children.push_back(child);
  }
  for (std::size_t left = children.size(); left > 0; --left) {
    if (!good)
      for (const pid_t child : children) ::kill(child, SIGKILL);
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    std::erase(children, ended);
    good = good && ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!good) throw tutti::Error(tutti::ErrorCode::system_error, "a rank's process could not be started or has failed");
}

// The slowest rank's times of one round.
Times one_round(const std::string& kind, int ranks) {
  Page* const page = Page::make(ranks);
  if (kind == "threads")
    round_of_threads(*page, ranks);
  else
    round_of_processes(*page, ranks);
  Times slowest{};
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t phase = 0; phase < slowest.size(); ++phase)
      slowest[phase] = std::max(slowest[phase], page->times[static_cast<std::size_t>(rank)][phase]);
  Page::drop(page);
  return slowest;
}

void report(Json& results, const std::string& kind, int ranks, const std::vector<Times>& rounds) {
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase) {
    std::vector<double> ms;
    for (const Times& round : rounds) ms.push_back(round[phase]);
    const double least = tutti::perf::quantile(ms, 0), median = tutti::perf::median(ms);
    const double p90 = tutti::perf::quantile(ms, 0.9);
    std::printf("%-9s  %5d  %-17s  %6zu  %9.3f  %9.3f  %9.3f\n", kind.c_str(), ranks, kPhases[phase], rounds.size(),
                least, median, p90);
    results.push_back({{"kind", kind},
                       {"ranks", ranks},
                       {"phase", kPhases[phase]},
                       {"min_ms", least},
                       {"median_ms", median},
                       {"p90_ms", p90},
                       {"rounds_ms", ms}});
  }
  std::fflush(stdout);
}

struct Options {
  std::vector<int> ranks{2, 64};
  std::vector<std::string> kinds{"threads", "processes"};
  int rounds = 0;  // 0: fewer the more ranks there are
  std::string json;
};

int rounds_of(const Options& options, int ranks) {
  return options.rounds > 0 ? options.rounds : std::clamp(200 / ranks, 7, 50);
}

int measure(const Options& options) {
  Json results = Json::array();
  std::printf("# milliseconds; the slowest rank's of each round\n");
  std::printf("%-9s  %5s  %-17s  %6s  %9s  %9s  %9s\n", "kind", "ranks", "phase", "rounds", "min", "median", "p90");
  for (const int ranks : options.ranks)
    for (const std::string& kind : options.kinds) {
      std::vector<Times> rounds;
      for (int round = 0; round < rounds_of(options, ranks); ++round) rounds.push_back(one_round(kind, ranks));
      report(results, kind, ranks, rounds);
    }
  return tutti::bench::write_results("create_bench", options.json, results);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("Times the making, the first all-reduce and the destruction of communicators.");
  app.add_option("--ranks", options.ranks, "numbers of ranks")->delimiter(',')->check(CLI::Range(1, kMostRanks));
  app.add_option("--kind", options.kinds, "threads, processes or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"threads", "processes"}));
  app.add_option("--rounds", options.rounds, "of each; 0: 50 of few ranks, 7 of many")->check(CLI::Range(0, 100'000));
  app.add_option("--json", options.json, "file to write the results to");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return measure(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "create_bench: %s\n", error.what());
  return 1;
}

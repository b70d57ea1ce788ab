// main of every *_perf program: ranks as threads of this process (-t, -g) or this process as one rank of a launched
// job.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/options.h"
#include "bench/perf/run_rank.h"
#include "src/base/env.h"
#include "src/runtime/job.h"
#include "tutti/communicator.h"
#include "tutti/error.h"

namespace tutti::perf {
namespace {

Config configuration(const Options& options) {
  Config config = Config::from_environment();
  if (options.timeout) config.timeout = *options.timeout;
  return config;
}

int run_threads(const CollectiveUnderTest& collective, const Options& options,
                const std::vector<std::string>& arguments) {
  std::vector<Communicator> communicators =
      Communicator::connect_threads(options.thread_ranks(), configuration(options));
  std::vector<int> statuses(communicators.size(), kFailed);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < communicators.size(); ++r)
    threads.emplace_back([&, r] {
      Communicator own = std::move(communicators[r]);
      CommunicatorPeer peer(own);
      statuses[r] = run_rank(peer, collective, options, arguments, std::cout, std::cerr);
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(statuses.begin(), statuses.end());
}

int run_process(const CollectiveUnderTest& collective, const Options& options,
                const std::vector<std::string>& arguments) {
  Communicator communicator = Communicator::connect(configuration(options));
  CommunicatorPeer peer(communicator);
  return run_rank(peer, collective, options, arguments, std::cout, std::cerr);
}

// Threads and a launcher's processes together would need a communicator that mixes both; -g 1 and more processes do.
void refuse_mixture(const Options& options) {
  const runtime::Job job = runtime::job_from_environment(base::env);
  if (options.thread_ranks() == 1 || job.size == 1) return;
  throw Error(ErrorCode::invalid_argument,
              "-t times -g is " + std::to_string(options.thread_ranks()) + ", but " + job.source + " has started " +
                  std::to_string(job.size) +
                  " processes, each of which is one rank; valid under a launcher: -t 1 -g 1");
}

}  // namespace

int perf_main(int argc, char** argv, const CollectiveUnderTest& collective) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const std::string program = std::string(collective.name()) + "_perf";
  try {
    const Options options = parse_options(argc, argv);
    refuse_mixture(options);
    const int status = options.thread_ranks() > 1 ? run_threads(collective, options, arguments)
                                                  : run_process(collective, options, arguments);
    if (std::fflush(stdout) == 0 && std::cout.flush()) return status;
    std::cerr << program + ": cannot write to standard output: " + std::strerror(errno) + "\n";
    return kFailed;
  } catch (const HelpRequested& help) {
    std::cout << help.text;
    return kGood;
  } catch (const Error& error) {
    std::cerr << program + ": " + error.what() + "\n";
    return error.code() == ErrorCode::invalid_argument ? kUsageError : kFailed;
  } catch (const std::exception& error) {
    std::cerr << program + ": " + error.what() + "\n";
    return kFailed;
  }
}

}  // namespace tutti::perf

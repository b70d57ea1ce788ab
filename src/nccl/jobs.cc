// Making communicators: the first step of a group's end, and of a call that stands alone.
#include <algorithm>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "src/nccl/group.h"
#include "src/nccl/result.h"

namespace tutti::nccl {
namespace {

using Chain = std::vector<Job>;  // those that one thread does, one after another

// What went wrong, if anything did.
std::optional<Error> attempt(const Job& job) {
  try {
    std::optional<Communicator> communicator = job.connect();
    if (communicator && job.child) job.child->adopt(std::move(*communicator));
    return std::nullopt;
  } catch (const Error& error) {
    return Error(error.code(), std::string(job.entry.function) + ": " + error.what());
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal_error, std::string(job.entry.function) + ": " + error.what());
  }
}

std::vector<Chain> chains_of(std::vector<Job> jobs) {
  std::vector<Chain> chains;
  std::map<Member*, std::size_t> chain_of;
  for (Job& job : jobs) {
    const auto [known, is_new] = chain_of.try_emplace(job.parent.get(), chains.size());
    if (is_new || job.parent == nullptr) {
      chains.emplace_back();
      known->second = chains.size() - 1;
    }
    chains[known->second].push_back(std::move(job));
  }
  return chains;
}

void set_busy(const Job& job, bool busy) {
  if (job.parent) job.parent->set_busy(busy);
  if (job.child) job.child->set_busy(busy);
}

void do_behind(const Chain& chain) {
  for (const Job& job : chain) {
    if (const std::optional<Error> error = attempt(job)) {
      if (job.child) job.child->fail(*error);
      if (job.parent) job.parent->set_last_error(error->what());
    }
    // The parent first: who has seen the last child ready may use the parent.
    if (&job == &chain.back() && job.parent) job.parent->set_busy(false);
    if (job.child) job.child->set_busy(false);
  }
}

// In a thread that nobody waits for: whoever polls the child, or the parent, sees the end.
void run_behind(Chain jobs) {
  const auto chain = std::make_shared<const Chain>(std::move(jobs));
  for (const Job& job : *chain) set_busy(job, true);
  try {
    std::thread([chain] { do_behind(*chain); }).detach();
  } catch (const std::system_error&) {
    for (const Job& job : *chain) set_busy(job, false);
    throw;
  }
  for (const Job& job : *chain)
    if (job.child && job.out != nullptr) *job.out = make_handle(job.child);
}

// All at once; the first in this thread.
std::vector<Error> run_here(const std::vector<Chain>& chains) {
  std::vector<std::vector<std::optional<Error>>> outcomes(chains.size());
  const auto run_chain = [&](std::size_t k) {
    for (const Job& job : chains[k]) outcomes[k].push_back(attempt(job));
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t k = 1; k < chains.size(); ++k) threads.emplace_back(run_chain, k);
    run_chain(0);
  }
  std::vector<Error> errors;
  for (std::size_t k = 0; k < chains.size(); ++k)
    for (std::size_t j = 0; j < chains[k].size(); ++j) {
      const Job& job = chains[k][j];
      if (outcomes[k][j]) {
        errors.push_back(*outcomes[k][j]);
        if (job.parent) job.parent->set_last_error(outcomes[k][j]->what());
      } else if (job.child && job.out != nullptr) {
        *job.out = make_handle(job.child);
      }
    }
  return errors;
}

}  // namespace

ncclResult_t run_jobs(std::vector<Job> jobs) {
  for (const Job& job : jobs)
    if (job.out != nullptr) *job.out = nullptr;
  std::vector<Chain> here;
  bool behind = false;
  for (Chain& chain : chains_of(std::move(jobs))) {
    if (std::any_of(chain.begin(), chain.end(), [](const Job& job) { return job.blocking; })) {
      here.push_back(std::move(chain));
    } else {
      run_behind(std::move(chain));
      behind = true;
    }
  }
  if (!here.empty()) throw_all(run_here(here));
  return behind ? ncclInProgress : ncclSuccess;
}

}  // namespace tutti::nccl

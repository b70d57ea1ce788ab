// The plans of one rank. Ranks that are threads of one process and know the same World share one Planner: schedules are
// built and plans are made once a process, by whichever rank needs one first. Plans are immutable, and a rank remembers
// those that it has met, so that only the first call of a size class looks at what is shared.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/planner/planner.h"

namespace tutti::runtime {

// Called now and then by a thread that waits for another one to plan; throws when it shall wait no longer.
using Patience = std::function<void(std::chrono::steady_clock::duration waited)>;

// A Planner that several threads use by turns. Safe from any thread; plan() and check() wait for other threads.
class SharedPlanner {
 public:
  explicit SharedPlanner(planner::World world, std::span<const schedule::Builder> builders = schedule::builders())
      : planner_(std::move(world), builders) {}

  const planner::World& world() const { return planner_.world(); }
  std::vector<std::string> algorithms(Collective collective) const { return planner_.algorithms(collective); }
  std::uint64_t key_of(Collective collective, DataType type, int root, std::size_t count) const {
    return planner_.key_of(collective, type, root, count);
  }
  // As Planner::plan after Planner::force(forced).
  const planner::Plan& plan(const std::string& forced, Collective collective, DataType type, ReduceOp op, int root,
                            std::size_t count, const Patience& patience);
  // Throws what Planner::force(forced) throws.
  void check(const std::string& forced, const Patience& patience);

 private:
  class Turn;
  void force(const std::string& names);

  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
  // Of the thread whose turn it is, but for what is const.
  planner::Planner planner_;
  std::string forced_ = planner_.world().forced_algorithm;
};

// One thread at a time.
class Plans {
 public:
  explicit Plans(std::shared_ptr<SharedPlanner> shared)
      : shared_(std::move(shared)), forced_(shared_->world().forced_algorithm) {}

  // See planner::Planner.
  const planner::Plan& plan(Collective collective, DataType type, ReduceOp op, int root, std::size_t count);
  std::vector<std::string> algorithms(Collective collective) const { return shared_->algorithms(collective); }
  void force(const std::string& names);

  void set_patience(Patience patience) { patience_ = std::move(patience); }

 private:
  std::shared_ptr<SharedPlanner> shared_;
  Patience patience_;
  std::string forced_;
  std::unordered_map<std::uint64_t, const planner::Plan*> met_;  // under what is forced
};

}  // namespace tutti::runtime

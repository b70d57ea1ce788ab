#include "src/runtime/plans.h"

namespace tutti::runtime {
namespace {

constexpr std::chrono::milliseconds kLookEvery{10};

}  // namespace

// A thread's turn at the planner.
class SharedPlanner::Turn {
 public:
  Turn(SharedPlanner& shared, const Patience& patience) : shared_(shared) {
    const auto since = std::chrono::steady_clock::now();
    std::unique_lock lock(shared_.mutex_);
    while (!shared_.free_.wait_for(lock, kLookEvery, [&] { return !shared_.taken_; })) {
      if (!patience) continue;
      lock.unlock();
      patience(std::chrono::steady_clock::now() - since);
      lock.lock();
    }
    shared_.taken_ = true;
  }
  ~Turn() {
    {
      const std::lock_guard lock(shared_.mutex_);
      shared_.taken_ = false;
    }
    shared_.free_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SharedPlanner& shared_;
};

void SharedPlanner::force(const std::string& names) {
  if (names == forced_) return;
  planner_.force(names);
  forced_ = names;
}

const planner::Plan& SharedPlanner::plan(const std::string& forced, Collective collective, DataType type, ReduceOp op,
                                         int root, std::size_t count, const Patience& patience) {
  const Turn turn(*this, patience);
  force(forced);
  return planner_.plan(collective, type, op, root, count);
}

void SharedPlanner::check(const std::string& forced, const Patience& patience) {
  const Turn turn(*this, patience);
  force(forced);
}

const planner::Plan& Plans::plan(Collective collective, DataType type, ReduceOp op, int root, std::size_t count) {
  const std::uint64_t key = shared_->key_of(collective, type, root, count);
  if (const auto found = met_.find(key); found != met_.end()) return *found->second;
  const planner::Plan& plan = shared_->plan(forced_, collective, type, op, root, count, patience_);
  met_.emplace(key, &plan);
  return plan;
}

void Plans::force(const std::string& names) {
  shared_->check(names, patience_);
  forced_ = names;
  met_.clear();
}

}  // namespace tutti::runtime

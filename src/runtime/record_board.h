// Where a rank writes what it is doing, for its control plane to read at any time: a sequence lock, so that writing
// costs a few plain stores and no reader can hold it up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "src/runtime/control_plane.h"
#include "src/runtime/operation_record.h"

namespace tutti::runtime {

// One thread writes. `version_` is odd while it does. A reader takes what it has read if `version_` was the same even
// number before and after:
//   - it has read all of an entry: its first load of the version acquires the store of that number, which releases the
//     stores before it;
//   - and nothing of a later one: if any of its loads had met a later store, the two fences would make the odd number,
//     stored before the writer's fence, visible to its second load of the version, behind its own.
class RecordBoard {
 public:
  // The thread that owns the communicator's progress calls these.
  void enter(const OperationRecord& record) {
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    Entry& entry = entries_[record.sequence % kRecent];
    entry.kind.store(std::uint64_t(record.collective) | std::uint64_t(record.type) << 8 |
                         std::uint64_t(record.op) << 16 | std::uint64_t(std::uint32_t(record.root)) << 32,
                     std::memory_order_relaxed);
    entry.count.store(record.count, std::memory_order_relaxed);
    entry.plan.store(record.plan, std::memory_order_relaxed);
    entry.sequence.store(record.sequence, std::memory_order_relaxed);
    sequence_.store(record.sequence, std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }
  void finish(std::uint64_t sequence) { finished_.store(sequence, std::memory_order_release); }
  // Exchanges, which this rank counts for itself: they have no entry, nobody compares them.
  void enter_exchange(std::uint64_t number) { exchange_.store(number, std::memory_order_release); }
  void finish_exchange(std::uint64_t number) { finished_exchange_.store(number, std::memory_order_release); }
  bool has_finished(const OperationRecord& record) const {
    if (record.exchange == 0) return finished() >= record.sequence;
    return finished_exchange_.load(std::memory_order_acquire) >= record.exchange;
  }
  // For slow paths only: what a stuck operation waits for.
  void set_waiting(const OperationRecord& record, std::string text) {
    const std::lock_guard lock(mutex_);
    waiting_sequence_ = record.sequence;
    waiting_exchange_ = record.exchange;
    waiting_ = std::move(text);
  }
  // What a plan is, in words, and what of it the user has forced ("" for nothing): for the report on ranks whose plans
  // differ. Call the former when a plan is first run.
  void name_plan(std::uint64_t plan, std::string text) {
    const std::lock_guard lock(mutex_);
    plans_[plan] = std::move(text);
  }
  void set_forced(std::string algorithm) {
    const std::lock_guard lock(mutex_);
    forced_ = std::move(algorithm);
  }
  // One of the last kRecent records, for the thread that writes them.
  OperationRecord recent(std::uint64_t sequence) const { return copy(entries_[sequence % kRecent]); }
  std::uint64_t finished() const { return finished_.load(std::memory_order_acquire); }

  // Any thread.
  RankState read() const {
    RankState state;
    for (;;) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);
      state.current = copy(entries_[sequence % kRecent]);
      state.recent.clear();
      for (const Entry& entry : entries_) state.recent.push_back(copy(entry));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) break;
    }
    state.running = state.current.sequence > finished();
    const std::uint64_t exchange = exchange_.load(std::memory_order_acquire);
    if (!state.running && exchange > finished_exchange_.load(std::memory_order_acquire)) {
      state.running = true;
      state.current = {.sequence = state.current.sequence, .exchange = exchange};
    }
    const std::lock_guard lock(mutex_);
    if (state.running && waiting_sequence_ == state.current.sequence && waiting_exchange_ == state.current.exchange)
      state.waiting = waiting_;
    for (const OperationRecord& record : state.recent)
      if (const auto text = plans_.find(record.plan); text != plans_.end())
        state.plans[record.plan] =
            text->second + (forced_.empty()
                                ? ", chosen by the planner"
                                : ", forced: '" + forced_ + "' by TUTTI_ALGO, Config::algorithm or force_algorithm()");
    return state;
  }

 private:
  // A rank whose calls need nobody's answer (a broadcast's root) runs ahead of the others by as many calls as a port
  // has slots, and then waits; its last calls are kept for comparison with theirs.
  static constexpr std::size_t kRecent = 16;
  struct Entry {
    std::atomic<std::uint64_t> sequence{0}, kind{0}, count{0}, plan{0};
  };

  static OperationRecord copy(const Entry& entry) {
    const std::uint64_t kind = entry.kind.load(std::memory_order_relaxed);
    return {entry.sequence.load(std::memory_order_relaxed), static_cast<Collective>(kind & 0xff),
            static_cast<DataType>(kind >> 8 & 0xff),        static_cast<ReduceOp>(kind >> 16 & 0xff),
            static_cast<std::int32_t>(kind >> 32),          entry.count.load(std::memory_order_relaxed),
            entry.plan.load(std::memory_order_relaxed)};
  }

  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint64_t> sequence_{0}, finished_{0};
  std::atomic<std::uint64_t> exchange_{0}, finished_exchange_{0};
  std::array<Entry, kRecent> entries_;
  mutable std::mutex mutex_;
  std::uint64_t waiting_sequence_ = 0, waiting_exchange_ = 0;
  std::string waiting_;
  std::map<std::uint64_t, std::string> plans_;
  std::string forced_;
};

}  // namespace tutti::runtime

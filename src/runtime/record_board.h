// Where a rank writes what it is doing, for its control plane to read at any time: a sequence lock, so that writing
// costs a few plain stores and no reader can hold it up.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "src/runtime/control_plane.h"
#include "src/runtime/operation_record.h"

namespace tutti::runtime {

class RecordBoard {
 public:
  // The thread that owns the communicator's progress calls these.
  void enter(const OperationRecord& record) {
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    kind_.store(std::uint64_t(record.collective) | std::uint64_t(record.type) << 8 | std::uint64_t(record.op) << 16 |
                    std::uint64_t(std::uint32_t(record.root)) << 32,
                std::memory_order_relaxed);
    count_.store(record.count, std::memory_order_relaxed);
    plan_.store(record.plan, std::memory_order_relaxed);
    sequence_.store(record.sequence, std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }
  void finish(std::uint64_t sequence) { finished_.store(sequence, std::memory_order_release); }
  // For slow paths only: what a stuck operation waits for.
  void set_waiting(std::string text) {
    const std::lock_guard lock(mutex_);
    waiting_ = std::move(text);
  }
  std::uint64_t finished() const { return finished_.load(std::memory_order_acquire); }

  // Any thread.
  RankState read() const {
    RankState state;
    for (;;) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      const std::uint64_t kind = kind_.load(std::memory_order_relaxed);
      state.current = {sequence_.load(std::memory_order_relaxed), static_cast<Collective>(kind & 0xff),
                       static_cast<DataType>(kind >> 8 & 0xff),   static_cast<ReduceOp>(kind >> 16 & 0xff),
                       static_cast<std::int32_t>(kind >> 32),     count_.load(std::memory_order_relaxed),
                       plan_.load(std::memory_order_relaxed)};
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) break;
    }
    state.running = state.current.sequence > finished();
    if (state.running) {
      const std::lock_guard lock(mutex_);
      state.waiting = waiting_;
    }
    return state;
  }

 private:
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint64_t> sequence_{0}, kind_{0}, count_{0}, plan_{0}, finished_{0};
  mutable std::mutex mutex_;
  std::string waiting_;
};

}  // namespace tutti::runtime

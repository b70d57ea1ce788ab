// What a handle stands for: one rank's end of a communicator, with all that the C interface keeps beside it.
//
// Thread safety: as in NCCL, one thread at a time makes calls; poll(), abort(), fault() and last_error() are for any.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "nccl.h"
#include "src/nccl/config.h"
#include "tutti/communicator.h"

namespace tutti::nccl {

// A piece of memory that the program has made known.
struct Registration {
  void* buffer = nullptr;
  std::size_t bytes = 0;
};

// ncclRedOpCreatePreMulSum.
struct Scaling {
  DataType type = DataType::float32;
  Factor factor{0.0f};
  const void* source = nullptr;  // where to read it anew at each call; null: `factor` counts
};

class Member {
 public:
  // Not connected yet. `device`: what the program calls this rank's device; nothing: the rank within its host.
  explicit Member(Settings settings, std::optional<int> device = std::nullopt);

  const Settings& settings() const { return settings_; }
  // Those of a communicator that is connected; throw otherwise.
  int rank() const;
  int size() const;
  int device() const;
  std::string who() const;                                        // "rank 1 of 4", for messages
  [[noreturn]] void refuse(const std::string& what) const;        // Error(invalid_argument)
  [[noreturn]] void refuse_usage(const std::string& what) const;  // Error(invalid_usage)

  // A job in another thread has the member to itself from set_busy(true), which the caller says before it starts it, to
  // set_busy(false), the last thing that it does.
  void adopt(Communicator communicator);
  void set_busy(bool busy) { busy_.store(busy, std::memory_order_release); }
  bool busy() const { return busy_.load(std::memory_order_acquire); }

  // The communicator, for an operation; throws while a job is in progress and after anything that ended its use.
  Communicator& usable();
  // The same after a revocation or a failure too: for making new communicators of it.
  Communicator& quiet();

  // Marks an operation that somebody waits for.
  class InOperation {
   public:
    explicit InOperation(Member& member) : member_(member) { member_.operations_.fetch_add(1); }
    ~InOperation() { member_.operations_.fetch_sub(1); }
    InOperation(const InOperation&) = delete;
    InOperation& operator=(const InOperation&) = delete;

   private:
    Member& member_;
  };

  // Keeps what a non-blocking communicator has started.
  void keep(Work work);
  // ncclInProgress while a job or anything kept is; else the fault.
  ncclResult_t poll();
  void complete();  // waits for what was kept
  void finalize();
  void revoke();
  void stop(const std::string& reason);  // aborts what is in progress, if anything is
  void abort(const std::string& reason);

  // The first that made it fail, or ncclSuccess.
  ncclResult_t fault() const { return fault_.load(std::memory_order_acquire); }
  void note(const Error& error);  // of a call: a fault, unless only the call was wrong
  void fail(const Error& error);  // of something that goes on behind the caller: always a fault
  std::string cause() const;      // the first fault in words
  std::string last_error() const;
  void set_last_error(const std::string& message);

  // Bookkeeping; only under the lock.
  struct Books {
    std::map<const void*, std::unique_ptr<Registration>> registrations;  // by handle
    std::map<const void*, std::unique_ptr<Registration>> windows;        // by handle
    std::map<int, Scaling> scalings;                                     // by ncclRedOp_t
  };
  template <class Look>
  auto with_books(Look look) {
    const std::lock_guard lock(mutex_);
    return look(books_);
  }

 private:
  const Communicator& connected() const;
  Communicator& connected();
  void check_idle() const;
  std::optional<Work> take_kept(bool only_done);
  void end(Work& work);

  const Settings settings_;
  std::optional<int> device_;
  std::optional<Communicator> communicator_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> finalized_{false}, revoked_{false};
  std::atomic<int> operations_{0};
  std::atomic<ncclResult_t> fault_{ncclSuccess};

  mutable std::mutex mutex_;  // of what follows
  std::deque<Work> kept_;
  std::string last_error_, cause_;
  Books books_;
};

}  // namespace tutti::nccl

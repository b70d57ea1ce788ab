// Runs the calls of one communicator on this rank, one after another: numbers them, finds their plan and program,
// drives them to their end, and turns whatever goes wrong into one Error that all ranks see.
//
// One thread at a time drives: a blocking call drives its own operation; asynchronous ones are driven by the engine's
// thread, and by a caller that waits for one of them, whoever is there.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "src/base/fork_guard.h"
#include "src/runtime/arena.h"
#include "src/runtime/connections.h"
#include "src/runtime/control_plane.h"
#include "src/runtime/engine.h"
#include "src/runtime/exchange.h"
#include "src/runtime/operation.h"
#include "src/runtime/pairs.h"
#include "src/runtime/parking.h"
#include "src/runtime/plans.h"
#include "src/runtime/record_board.h"
#include "src/runtime/reducer.h"
#include "src/runtime/reunion.h"
#include "src/runtime/slot_budget.h"
#include "src/runtime/transport.h"
#include "tutti/communicator.h"

namespace tutti::runtime {

// Everything a rank has after connecting. A communicator of one rank has no engine, control plane, arena or transport.
struct Station {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  Cores cores = Cores::own;
  bool spare_cores = false;  // every rank of a host can have a core for the engine besides its own
  std::vector<int> bells;    // what brings this rank news while it sleeps (parking.h); none: it naps
  bool rung = false;         // the first of them is rung by ranks of this host
  Config config;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<RecordBoard> board = std::make_shared<RecordBoard>();
  std::unique_ptr<ControlPlane> control;
  std::shared_ptr<Arena> arena;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<int> memory_domain;        // per rank; equal for ranks that share memory
  std::vector<Transport*> transport_of;  // per rank; null for this rank
  std::vector<Transport*> movers;        // those whose progress() moves anything
  std::unique_ptr<Plans> plans;
  const Kernels* kernels = nullptr;
  Reunion reunion;
};

class Runner final : public Driver, public std::enable_shared_from_this<Runner> {
 public:
  explicit Runner(Station station);
  ~Runner() override;

  const Station& station() const { return station_; }
  // `What` is a Request, or Transfers.
  template <class What>
  void run(const What& what);
  template <class What>
  std::shared_ptr<Work::State> submit(const What& what);
  void wait(Work::State& state);
  // Of later calls; those in the queue keep their plans.
  void force_algorithm(const std::string& name);
  void abort(const std::string& reason);
  std::optional<Error> failure() const;  // any thread
  // Ends everything in progress and leaves; bounded by kLeaveTimeout. Later calls fail.
  void close() noexcept;
  // `use` has the plans to itself.
  template <class Use>
  auto with_plans(Use use) {
    const CallGuard guard(*this);
    check_not_forked();
    return use(*station_.plans);
  }

  // The job of those members that are to meet again; also after a failure.
  Job reunion(const std::vector<int>& members, Occasion occasion, int color = 0);

  // Drives the queue a little, if nobody else does; true when `state` is done. Never blocks.
  bool test(Work::State& state);

  State drive() override { return drive(Look::quick); }
  State settle() override { return drive(Look::thorough); }
  std::span<const int> bells() const override { return station_.bells; }
  bool has_spare_core() const override { return station_.spare_cores; }

 private:
  // One caller at a time; marks the communicator as in use for the length of a call.
  class CallGuard {
   public:
    explicit CallGuard(Runner& runner);
    ~CallGuard() { runner_.in_call_.store(false, std::memory_order_release); }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;

   private:
    Runner& runner_;
  };
  struct DriveRelease {
    explicit DriveRelease(Runner& r) : runner(r) {}
    ~DriveRelease() { runner.driving_.store(false, std::memory_order_release); }
    DriveRelease(const DriveRelease&) = delete;
    DriveRelease& operator=(const DriveRelease&) = delete;
    Runner& runner;
  };
  enum class Step { blocked, moved, finished };
  enum class Look { quick, thorough };          // thorough: before a sleep, see Transport::settle
  static constexpr unsigned kLookEvery = 4096;  // moves
  static constexpr unsigned kTestsPerLook = 64;
  // Abort ends a communicator for good, so one epoch is all it ever has; stamps carry it for communicators that
  // recover.
  static constexpr std::uint16_t kEpoch = 1;
  // Outputs of a host's ranks, all together, that no last-level cache keeps until they are read.
  static constexpr std::size_t kStreamingBytes = std::size_t{32} << 20;

  // runner.cc: calls, and who drives
  void check_not_forked() const;
  void check_usable(const Request& request) const;
  void check_usable(Transfers transfers) const;
  void check_usable(const Operation& op) const;
  void check_no_fault(bool sends_only) const;
  template <class What>
  std::shared_ptr<Work::State> enqueue(const What& what);
  std::shared_ptr<Work::State> front();
  void pop(Work::State& state);
  void help(Work::State& state);
  void drive_to_end(Operation& op);
  Step advance(Operation& op, Waiter& waiter);
  Step sleep(Operation& op, Clock::duration waited);
  Step step_and_look(Operation& op);
  Step look_if_blocked(Operation& op, Step result);
  State drive(Look look);
  void let_woken_run();
  void wake_engine();
  void take_drive();
  bool try_take_drive() { return !driving_.exchange(true, std::memory_order_acquire); }
  std::string self() const { return "rank " + std::to_string(station_.rank); }

  // runner_operation.cc: one operation
  void accept(Operation& op, const Request& request);
  Step step(Operation& op, Look look);
  Step step_or_fail(Operation& op, Look look = Look::quick);
  void prepare(Operation& op);
  void prepare_anew(Operation& op);
  BoundProgram* program_for(const planner::Plan& plan);
  void bind(BoundProgram& program, const schedule::Schedule& schedule, std::uint32_t slots, std::uint32_t slot_bytes,
            std::uint32_t generation);
  void locate_buffers(const Operation& op, Call& call) const;
  std::byte* scratch(std::size_t bytes);
  void forget_rings();
  bool move_transports(Look look);
  bool restless() const;
  bool drained() const;

  // runner_exchange.cc: one exchange
  void accept(Operation& op, Transfers transfers);
  Step step_exchange(Operation& op, Look look);
  bool look_for_leavers(Operation& op);

  // runner_trouble.cc: what can go wrong
  void look_around(Operation& op, Clock::duration waited);
  void look_or_fail(Operation& op, Clock::duration waited);
  void time_out(Operation& op);
  void report_timeout(const OperationRecord& record);
  std::string waiting_text(const Operation& op) const;
  void fail(Operation& op, const Error& error);
  void revoke(const Operation& op);
  void revoke_buffers();
  void leave();
  void look_while_others_plan(Clock::duration waited) const;

  Station station_;
  base::ForkGuard fork_guard_;

  // Of the calling thread (in_call_).
  std::atomic<bool> in_call_{false};
  std::uint64_t sequence_ = 0;
  std::uint32_t last_fingerprint_ = 0;
  std::uint64_t exchanges_ = 0;
  Operation blocking_;  // the blocking call's operation; reused, so that a call allocates nothing
  struct Known {
    Request request;
    const planner::Plan* plan = nullptr;
    std::uint64_t kind = 0;
    std::uint64_t hash = 0;
  };
  Known known_;  // about the last call; the next one is likely to be like it
  std::uint64_t kinds_ = 0;
  bool closed_ = false;

  // Of the driving thread (driving_).
  std::atomic<bool> driving_{false};
  Connections connections_;
  SlotBudget budget_;
  Pairs pairs_;
  Exchange exchange_;
  std::unordered_map<const planner::Plan*, std::unique_ptr<BoundProgram>> programs_;
  struct Prepared {
    std::uint64_t kind = 0;
    BoundProgram* program = nullptr;
    Call call;
  };
  Prepared prepared_;  // the last operation; likewise
  Call quiesce_call_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::uint32_t generation_ = 0;  // of the rings; see forget_rings
  std::unique_ptr<BoundProgram> quiesce_program_;
  std::vector<PortId> quiesce_ports_;
  std::uint32_t kept_rings_ = 0;

  std::optional<Parking> parking_;  // none: naps

  // Of all threads.
  std::atomic<int> queued_{0};
  std::atomic<int> helpers_{0};      // callers that wait and drive, so that the engine need not
  std::atomic<bool> tested_{false};  // so did one that tested, since the engine last looked
  std::mutex queue_mutex_;
  std::deque<std::shared_ptr<Work::State>> queue_;
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::atomic<bool> reporting_{false};
  std::thread timeout_reporter_;  // an asynchronous operation's deadline is reported off the engine's thread
};

}  // namespace tutti::runtime

namespace tutti {

struct Work::State {
  std::shared_ptr<runtime::Runner> runner;
  runtime::Request request;
  std::vector<Transfer> transfers;
  runtime::Operation operation;
  std::atomic<bool> done{false};
};

}  // namespace tutti

#include "src/runtime/runner.h"

#include <algorithm>
#include <limits>

#include "src/base/log.h"
#include "src/schedule/builders.h"
#include "src/schedule/collectives.h"

namespace tutti::runtime {
namespace {

using std::chrono::milliseconds;

constexpr long kNap = 50'000;  // nanoseconds
constexpr milliseconds kFirstSleep{10};
constexpr milliseconds kLongestSleep{100};

// What was asked, where it lives as long as the operation.
const Request& kept(Work::State& state, const Request& request) { return state.request = request; }
Transfers kept(Work::State& state, Transfers transfers) {
  state.transfers.assign(transfers.begin(), transfers.end());
  return state.transfers;
}

}  // namespace

Runner::CallGuard::CallGuard(Runner& runner) : runner_(runner) {
  if (runner_.in_call_.exchange(true, std::memory_order_acquire))
    throw Error(
        ErrorCode::invalid_usage,
        runner_.self() + ": two threads call the same communicator at the same time; one thread at a time may use it");
}

Runner::Runner(Station station)
    : station_(std::move(station)),
      connections_(station_.rank, station_.arena.get(), station_.transport_of),
      budget_(station_.config.buffer_limit - pair_memory(station_.size, station_.config.buffer_limit),
              ArenaDirectory::kCapacity / 2, station_.memory_domain),
      pairs_(station_.rank, station_.size, station_.config.buffer_limit, connections_),
      exchange_({.rank = station_.rank,
                 .ranks = station_.size,
                 .epoch = kEpoch,
                 .copy = station_.kernels->copy,
                 .flags = station_.arena == nullptr ? nullptr : &station_.arena->view().direct(),
                 .streaming_from = kStreamingBytes / static_cast<std::size_t>(std::max(1, station_.local_size))},
                pairs_) {
  if (station_.size == 1) return;
  station_.plans->set_patience([this](Clock::duration waited) { look_while_others_plan(waited); });
  station_.board->set_forced(station_.config.algorithm);
  // The barrier's ring comes first in the arena and stays; transports hear of it when it is first used.
  schedule::Shape shape;
  shape.ranks = station_.size;
  quiesce_program_ = std::make_unique<BoundProgram>();
  bind(*quiesce_program_, schedule::build_oneshot_barrier(shape), 2, 64, std::numeric_limits<std::uint32_t>::max());
  for (const PortEnd& end : quiesce_program_->code.sends) quiesce_ports_.push_back(end.id);
  for (const PortEnd& end : quiesce_program_->code.receives) quiesce_ports_.push_back(end.id);
  kept_rings_ = station_.arena->rings();
  if (!station_.bells.empty())
    parking_.emplace(station_.rung ? &station_.arena->view().parked() : nullptr, station_.bells);
  station_.engine->add(this);
}

Runner::~Runner() {
  close();
  if (!timeout_reporter_.joinable()) return;
  if (fork_guard_.forked())
    timeout_reporter_.detach();  // a thread of the parent's
  else
    timeout_reporter_.join();
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void Runner::check_not_forked() const {
  if (fork_guard_.forked())
    throw Error(ErrorCode::invalid_usage,
                self() + ": this communicator was made before fork(); a child process must make its own");
}

// A rank that has died may have sent all that the call needs: then it is left to look_around() to find out, unless the
// call needs nobody and would succeed by itself.
void Runner::check_usable(const Request& request) const {
  check_no_fault(schedule::only_sends(request.collective, request.root, station_.rank));
}

void Runner::check_usable(Transfers transfers) const {
  check_no_fault(std::none_of(transfers.begin(), transfers.end(), [this](const Transfer& transfer) {
    return transfer.direction == Transfer::Direction::receive && transfer.peer != station_.rank;
  }));
}

void Runner::check_usable(const Operation& op) const {
  op.request != nullptr ? check_usable(*op.request) : check_usable(op.transfers);
}

void Runner::check_no_fault(bool sends_only) const {
  check_not_forked();
  const bool raised = station_.control != nullptr && station_.control->fault_raised();
  if (!raised && !failed_.load(std::memory_order_acquire)) return;
  if (const std::optional<Error> ended = failure()) throw *ended;
  if (sends_only) throw station_.control->fault();
}

// A rank that has died is none yet: what it had sent may be all that is needed.
std::optional<Error> Runner::failure() const {
  if (failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }
  if (station_.control == nullptr || !station_.control->fault_raised()) return std::nullopt;
  const Error fault = station_.control->fault();
  return fault.code() == ErrorCode::remote_error ? std::nullopt : std::optional(fault);
}

template <class What>
void Runner::run(const What& what) {
  const CallGuard call(*this);
  check_usable(what);
  if (queued_.load(std::memory_order_acquire) != 0) {  // behind the asynchronous operations in flight
    const auto state = enqueue(what);
    help(*state);
    if (state->operation.error) throw *state->operation.error;
    return;
  }
  accept(blocking_, what);
  take_drive();
  const DriveRelease drive(*this);
  drive_to_end(blocking_);
  let_woken_run();
  if (blocking_.error) throw *blocking_.error;
}

template <class What>
std::shared_ptr<Work::State> Runner::submit(const What& what) {
  const CallGuard call(*this);
  check_usable(what);
  auto state = enqueue(what);
  if (station_.engine == nullptr) {
    help(*state);  // alone: nothing to wait for
    return state;
  }
  // First in the queue: the caller makes the connections and sends what can be sent, the engine does the rest.
  if (queued_.load(std::memory_order_acquire) == 1 && try_take_drive()) {
    const DriveRelease release(*this);
    if (front() == state && step_or_fail(state->operation) == Step::finished) pop(*state);
    let_woken_run();
  }
  if (!state->done.load(std::memory_order_acquire)) wake_engine();
  return state;
}

template <class What>
std::shared_ptr<Work::State> Runner::enqueue(const What& what) {
  auto state = std::make_shared<Work::State>();
  state->runner = shared_from_this();
  accept(state->operation, kept(*state, what));
  state->operation.queued = true;
  state->operation.deadline = Clock::now() + station_.config.timeout;  // it may wait behind others
  const std::lock_guard lock(queue_mutex_);
  queue_.push_back(state);
  queued_.fetch_add(1, std::memory_order_release);
  return state;
}

template void Runner::run(const Request& request);
template void Runner::run(const Transfers& transfers);
template std::shared_ptr<Work::State> Runner::submit(const Request& request);
template std::shared_ptr<Work::State> Runner::submit(const Transfers& transfers);

// Drives the queue from the calling thread until `state` is done.
void Runner::help(Work::State& state) {
  helpers_.fetch_add(1);
  Waiter waiter(station_.cores, parking_.has_value());
  Waiter turn(station_.cores, false);  // nobody rings when the drive is free
  while (!state.done.load(std::memory_order_acquire)) {
    if (try_take_drive()) {
      const DriveRelease release(*this);
      if (const auto head = front()) {
        if (advance(head->operation, waiter) == Step::finished) {
          pop(*head);
          if (head.get() == &state) let_woken_run();
        }
        turn.reset();
        continue;
      }
    }
    turn.pause();
  }
  helpers_.fetch_sub(1);
  if (queued_.load(std::memory_order_acquire) != 0 && station_.engine != nullptr) wake_engine();
}

void Runner::wait(Work::State& state) {
  if (!state.done.load(std::memory_order_acquire)) {
    check_not_forked();
    help(state);
  }
  if (state.operation.error) throw *state.operation.error;
}

bool Runner::test(Work::State& state) {
  if (!state.done.load(std::memory_order_acquire) && !fork_guard_.forked() && try_take_drive()) {
    const DriveRelease release(*this);
    tested_.store(true, std::memory_order_relaxed);
    if (const auto head = front())
      if (step_and_look(head->operation) == Step::finished) {
        pop(*head);
        let_woken_run();
        if (queued_.load(std::memory_order_acquire) != 0) wake_engine();  // it may sleep, and the next has begun
      }
  }
  return state.done.load(std::memory_order_acquire);
}

// One step of who comes now and then. He looks around at every kTestsPerLook-th step that moves nothing: as long as he
// comes often the engine's thread keeps away, so nobody else sees the deadline, a fault or an abort.
Runner::Step Runner::step_and_look(Operation& op) {
  const Step result = step_or_fail(op);
  if (result == Step::blocked && ++op.tests % kTestsPerLook != 0) return result;
  return look_if_blocked(op, result);
}

Runner::Step Runner::look_if_blocked(Operation& op, Step result) {
  if (result != Step::blocked) {
    op.blocked_since = {};
    return result;
  }
  const Clock::time_point now = Clock::now();
  if (op.blocked_since == Clock::time_point{}) op.blocked_since = now;
  look_or_fail(op, now - op.blocked_since);
  return op.phase == Operation::Phase::finished ? Step::finished : result;
}

std::shared_ptr<Work::State> Runner::front() {
  const std::lock_guard lock(queue_mutex_);
  return queue_.empty() ? nullptr : queue_.front();
}

// The drive is ours; `state` is the front of the queue and its operation is finished. The caller holds a share in it.
void Runner::pop(Work::State& state) {
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.pop_front();
  }
  queued_.fetch_sub(1, std::memory_order_release);
  state.done.store(true, std::memory_order_release);
}

Driver::State Runner::drive(Look look) {
  if (queued_.load(std::memory_order_acquire) == 0 || helpers_.load() != 0) return State::idle;
  if (!station_.spare_cores && tested_.exchange(false, std::memory_order_relaxed)) {
    station_.engine->wake_soon();  // the caller does the work; does he go on?
    return State::idle;
  }
  if (!try_take_drive()) return State::restless;
  const DriveRelease release(*this);
  if (parking_) parking_->leave();
  const auto head = front();
  if (head == nullptr) return State::idle;
  Operation& op = head->operation;
  const bool can_sleep = look == Look::thorough && parking_ && !restless();
  if (can_sleep) parking_->prepare();
  const Step result = look_if_blocked(op, step_or_fail(op, look));
  if (result == Step::finished) pop(*head);
  if (result != Step::blocked) return State::moved;
  return look == Look::quick || can_sleep ? State::busy : State::restless;
}

// The system likes to wake a thread on the core of the one that wakes it, where it might wait for the end of a time
// slice. Who goes on waiting yields soon anyway; before a return to the caller, who may compute, it is done here. The
// drive is ours.
void Runner::let_woken_run() {
  if (station_.rung && station_.transports.front()->take_rung()) ::sched_yield();
}

// Where the ranks compute on all cores the engine's thread would only be in the caller's way, who is likely to wait or
// to test soon. It comes when that takes longer, so that peers need not wait for him.
void Runner::wake_engine() {
  if (station_.spare_cores)
    station_.engine->wake();
  else
    station_.engine->wake_soon();
}

void Runner::take_drive() {
  while (!try_take_drive()) {
    if (station_.cores != Cores::own)
      ::sched_yield();
    else
      cpu_relax();
  }
}

void Runner::drive_to_end(Operation& op) {
  Waiter waiter(station_.cores, parking_.has_value());
  while (advance(op, waiter) != Step::finished) {
  }
}

// One step and, when there is nothing to do, one short wait. Now and then it looks around, also while things move: a
// peer that dribbles must not keep us from seeing the deadline.
Runner::Step Runner::advance(Operation& op, Waiter& waiter) {
  Step result = step_or_fail(op);
  if (result == Step::blocked) {
    const Waiter::Next next = waiter.pause();
    if (next == Waiter::Next::poll) return result;
    if (next == Waiter::Next::sleep) result = sleep(op, waiter.waited());
    if (result == Step::blocked) look_or_fail(op, waiter.waited());
  }
  if (result == Step::moved) {
    waiter.reset();
    if (++op.moves % kLookEvery == 0) look_or_fail(op, {});
  }
  return op.phase == Operation::Phase::finished ? Step::finished : result;
}

// Sleeps until there is news, if there is none at a second look; then the step that it allows. The drive is ours all
// the while (parking.h). A fault ends the sleep too: its descriptor is readable from then on, so after one there are
// naps.
Runner::Step Runner::sleep(Operation& op, Clock::duration waited) {
  if (station_.control->fault_raised() || restless()) return Waiter::nap(kNap), Step::blocked;
  parking_->prepare();
  Step result = step_or_fail(op, Look::thorough);
  if (result == Step::blocked) {
    // The longer it has lasted the longer, so that one who waits for minutes costs nothing.
    auto limit = std::clamp<Clock::duration>(waited, kFirstSleep, kLongestSleep);
    if (op.deadline != Clock::time_point{}) limit = std::min(limit, op.deadline - Clock::now());
    parking_->sleep(std::max(std::chrono::ceil<milliseconds>(limit), milliseconds(1)), station_.control->fault_fd());
    result = step_or_fail(op);
  }
  parking_->leave();
  return result;
}

Job Runner::reunion(const std::vector<int>& members, Occasion occasion, int color) {
  const CallGuard guard(*this);
  check_not_forked();
  return station_.reunion.call(members, station_.rank, occasion, color);
}

void Runner::force_algorithm(const std::string& name) {
  with_plans([&](Plans& plans) { plans.force(name); });
  station_.board->set_forced(name);
  known_ = {};
}

}  // namespace tutti::runtime

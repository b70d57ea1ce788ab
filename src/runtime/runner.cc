#include "src/runtime/runner.h"

#include <array>
#include <cstdio>
#include <utility>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/schedule/builders.h"

namespace tutti::runtime {
namespace {

constexpr std::size_t kStreamingBytes = std::size_t{32} << 20;  // outputs that no cache keeps until they are read
constexpr std::uint32_t kQuiesceGeneration = 0xffffffff;
constexpr Clock::duration kStallWhenAlone = std::chrono::milliseconds(1);    // every rank has a core
constexpr Clock::duration kStallWhenShared = std::chrono::milliseconds(20);  // ranks wait for their turn

// Averages of float16 and of the 8-bit floats are scaled before the sum, which might not fit the type otherwise.
bool scales_before_sum(DataType type) {
  return type == DataType::float16 || type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
}

constexpr Clock::duration kReportAgain = std::chrono::milliseconds(100);
constexpr Clock::duration kMismatchPatience =
    std::chrono::milliseconds(500);  // for the control plane to name both calls
constexpr std::uint16_t kEpoch = 1;

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

// One caller at a time; marks the communicator as in use for the length of a call.
class Runner::CallGuard {
 public:
  explicit CallGuard(Runner& runner) : runner_(runner) {
    if (runner_.in_call_.exchange(true, std::memory_order_acquire))
      throw Error(ErrorCode::invalid_usage, rank_name(runner_.station_.rank) +
                                                ": two threads call the same communicator at the same time; one "
                                                "thread at a time may use it");
  }
  ~CallGuard() { runner_.in_call_.store(false, std::memory_order_release); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  Runner& runner_;
};

Runner::Runner(Station station)
    : station_(std::move(station)),
      connections_(station_.rank, station_.arena.get(), station_.transport_of),
      slot_bytes_of_(static_cast<std::size_t>(station_.size), 0) {
  if (station_.size == 1) return;
  schedule::Shape shape;
  shape.ranks = station_.size;
  const schedule::Schedule barrier = schedule::build_oneshot_barrier(shape);
  quiesce_program_ = std::make_unique<BoundProgram>();
  bind(*quiesce_program_, barrier, 2, 64, kQuiesceGeneration);
  for (const PortEnd& end : quiesce_program_->code.sends) quiesce_ports_.push_back(end.id);
  for (const PortEnd& end : quiesce_program_->code.receives) quiesce_ports_.push_back(end.id);
  kept_rings_ = station_.arena->rings();
  station_.engine->add(this);
}

Runner::~Runner() {
  close();
  if (timeout_reporter_.joinable()) timeout_reporter_.join();
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void Runner::check_usable() const {
  if (fork_guard_.forked())
    throw Error(ErrorCode::invalid_usage, rank_name(station_.rank) +
                                              ": this communicator was made before fork(); a child process must make "
                                              "its own");
  if (failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(failure_mutex_);
    throw *failure_;
  }
  if (station_.control != nullptr && station_.control->fault_raised()) throw station_.control->fault();
}

void Runner::run(const Request& request) {
  const CallGuard call(*this);
  check_usable();
  if (queued_.load(std::memory_order_acquire) != 0) {  // behind the asynchronous operations in flight
    const auto state = enqueue(request);
    help(*state);
    if (state->operation.error) throw *state->operation.error;
    return;
  }
  const DriveGuard drive(*this);
  accept(blocking_, request);
  drive_to_end(blocking_);
  if (blocking_.error) throw *blocking_.error;
}

std::shared_ptr<Work::State> Runner::submit(const Request& request) {
  const CallGuard call(*this);
  check_usable();
  auto state = enqueue(request);
  if (station_.engine == nullptr)
    help(*state);  // alone: nothing to wait for
  else
    station_.engine->wake();
  return state;
}

std::shared_ptr<Work::State> Runner::enqueue(const Request& request) {
  auto state = std::make_shared<Work::State>();
  state->runner = shared_from_this();
  accept(state->operation, request);
  state->operation.deadline = Clock::now() + station_.config.timeout;  // it may wait behind others
  const std::lock_guard lock(queue_mutex_);
  queue_.push_back(state);
  queued_.fetch_add(1, std::memory_order_release);
  return state;
}

// Drives the queue from the calling thread until `state` is done.
void Runner::help(Work::State& state) {
  helpers_.fetch_add(1);
  Waiter waiter(station_.ranks_share_cores);
  while (!state.done.load(std::memory_order_acquire)) {
    bool moved = false;
    bool looked = false;
    if (try_take_drive()) {
      if (const auto head = front()) {
        const Step result = step_or_fail(head->operation);
        moved = result != Step::blocked;
        if (result == Step::finished)
          pop(*head);
        else if (!moved && (looked = waiter.pause()))
          look_around(head->operation, waiter.waited());
      }
      release_drive();
    }
    if (moved)
      waiter.reset();
    else if (!looked)
      waiter.pause();
  }
  helpers_.fetch_sub(1);
  if (queued_.load(std::memory_order_acquire) != 0 && station_.engine != nullptr) station_.engine->wake();
}

void Runner::wait(Work::State& state) {
  if (!state.done.load(std::memory_order_acquire)) help(state);
  if (state.operation.error) throw *state.operation.error;
}

std::shared_ptr<Work::State> Runner::front() {
  const std::lock_guard lock(queue_mutex_);
  return queue_.empty() ? nullptr : queue_.front();
}

// The drive is ours; `state` is the front of the queue and its operation is finished.
void Runner::pop(Work::State& state) {
  {
    const std::lock_guard lock(queue_mutex_);
    state.done.store(true, std::memory_order_release);
    queue_.pop_front();
  }
  queued_.fetch_sub(1, std::memory_order_release);
}

Driver::State Runner::drive() {
  if (queued_.load(std::memory_order_acquire) == 0 || helpers_.load() != 0) return State::idle;
  if (!try_take_drive()) return State::busy;
  State state = State::busy;
  if (const auto head = front()) {
    const Step result = step_or_fail(head->operation);
    if (result == Step::blocked) {
      if (head->operation.last_move == Clock::time_point{}) head->operation.last_move = Clock::now();
      look_around(head->operation, Clock::now() - head->operation.last_move);
    } else {
      head->operation.last_move = {};
      state = State::moved;
    }
    if (head->operation.phase == Operation::Phase::finished) pop(*head);
  }
  release_drive();
  return state;
}

void Runner::take_drive() {
  while (!try_take_drive()) {
    if (station_.ranks_share_cores)
      ::sched_yield();
    else
      cpu_relax();
  }
}

void Runner::drive_to_end(Operation& op) {
  Waiter waiter(station_.ranks_share_cores);
  for (;;) {
    const Step result = step_or_fail(op);
    if (result == Step::finished) return;
    if (result == Step::moved)
      waiter.reset();
    else if (waiter.pause())
      look_around(op, waiter.waited());
  }
}

// ---- one operation --------------------------------------------------------------------------------------------------

void Runner::accept(Operation& op, const Request& request) {
  op.request = request;
  op.record = {++sequence_, request.collective, request.type, request.op, request.root, request.count, 0};
  op.deadline = {};  // set when the operation first has to wait: a look at the clock costs as much as a small message
  op.phase = Operation::Phase::accepted;
  op.quiescing = false;
  op.next_report = {};
  op.mismatched_rank = -1;
  op.error.reset();
  op.last_move = {};
}

Runner::Step Runner::step_or_fail(Operation& op) {
  try {
    return step(op);
  } catch (const Error& error) {
    fail(op, error);
  } catch (const std::exception& error) {
    fail(op, Error(ErrorCode::internal_error, rank_name(station_.rank) + ": " + error.what()));
  }
  return Step::finished;
}

Runner::Step Runner::step(Operation& op) {
  using Phase = Operation::Phase;
  if (op.phase == Phase::accepted) {
    check_usable();
    prepare(op);
  }
  if (op.phase == Phase::connecting) {
    if (!connections_.bind_receives(*op.program)) return move_transports() ? Step::moved : Step::blocked;
    op.execution.start(*op.program, op.call, kEpoch);
    op.phase = Phase::running;
  }
  bool moved = false;
  if (op.phase == Phase::running) {
    const Execution::State state = op.execution.advance();
    moved = move_transports() || state == Execution::State::moved;
    if (state == Execution::State::mismatch) op.mismatched_rank = op.execution.mismatched_rank();
    if (state != Execution::State::done) return moved ? Step::moved : Step::blocked;
    op.phase = Phase::draining;
  }
  if (op.phase == Phase::draining) {
    if (!drained()) return move_transports() || moved ? Step::moved : Step::blocked;
    if (op.quiescing) {
      forget_rings();
      op.quiescing = false;
      prepare(op);
      return Step::moved;
    }
    station_.board->finish(op.record.sequence);
    op.phase = Phase::finished;
  }
  return Step::finished;
}

// Finds plan and program, and makes the call ready to run.
void Runner::prepare(Operation& op) {
  const Request& request = op.request;
  const planner::Plan& plan =
      station_.planner->plan(request.collective, request.type, request.op, request.root, request.count);
  op.record.plan = plan.id;
  station_.board->enter(op.record);

  Call& call = op.call;
  call.input = static_cast<const std::byte*>(request.input);
  call.output = static_cast<std::byte*>(request.output);
  call.count = request.count;
  call.element_bytes = size_of(request.type);
  call.fingerprint = fingerprint(op.record);
  const bool average = request.op == ReduceOp::avg;
  call.reduce = station_.kernels->reduce[static_cast<std::size_t>(request.type)]
                                        [static_cast<std::size_t>(average ? ReduceOp::sum : request.op)];
  call.copy = station_.kernels->copy;
  call.prescale = average && scales_before_sum(request.type) ? 1.0 / station_.size : 1.0;
  call.postdivide = average && !scales_before_sum(request.type) ? station_.size : 1;
  call.streaming = request.count * call.element_bytes >= kStreamingBytes;

  op.program = program_for(plan);
  if (op.program != nullptr) {
    BoundProgram::Slicing& slicing = op.program->slicing;
    if (slicing.count != request.count || slicing.type != request.type)
      slicing = {request.count, request.type, plan.slice_elements(request.count, request.type),
                 plan.rounds(request.count, request.type)};
    call.slice = slicing.slice;
    call.rounds = slicing.rounds;
  }
  if (op.program == nullptr) {  // slot memory is full: all ranks clear theirs first, at this same operation
    op.quiescing = true;
    op.program = quiesce_program_.get();
    call.count = 0;
    call.rounds = 1;
  } else if (const auto chunks = static_cast<std::size_t>(plan.schedule->scratch_chunks); chunks > 0) {
    const std::size_t bytes = request.count * call.element_bytes;
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    call.scratch = scratch_.data();
  }
  op.phase = Operation::Phase::connecting;
}

// The plan's program, made at first use; null when the slots of its ports do not fit any more.
BoundProgram* Runner::program_for(const planner::Plan& plan) {
  if (&plan == last_plan_) return last_program_;
  std::unique_ptr<BoundProgram>& program = programs_[&plan];
  if (program == nullptr) {
    if (!reckon_slots(plan)) return nullptr;
    program = std::make_unique<BoundProgram>();
    bind(*program, *plan.schedule, plan.slots, plan.slot_bytes, generation_);
  }
  last_plan_ = &plan;
  return last_program_ = program.get();
}

void Runner::bind(BoundProgram& program, const schedule::Schedule& schedule, std::uint32_t slots,
                  std::uint32_t slot_bytes, std::uint32_t generation) {
  program.code = lower(schedule, station_.rank, slots, slot_bytes, generation);
  program.cursors.resize(program.code.lanes());
  program.inputs.resize(program.code.most_operands);
  program.outputs.resize(program.code.most_destinations);
  connections_.bind_sends(program);
  program.receives.assign(program.code.receives.size(), nullptr);
  program.unbound = program.receives.size();
}

// Adds the slots of the plan's new ports to what every rank uses; false, and nothing added, when they do not fit. All
// ranks come to the same answer, because they meet the same plans in the same order.
bool Runner::reckon_slots(const planner::Plan& plan) {
  std::vector<std::size_t> bytes = slot_bytes_of_;
  std::vector<PortId> fresh;
  for (const schedule::Port& port : plan.schedule->ports) {
    const RingGeometry geometry{static_cast<std::uint32_t>(port.readers.size()), plan.slots, plan.slot_bytes};
    const PortId id = port_id(*plan.schedule, port, geometry, generation_);
    if (reckoned_ports_.contains(id)) continue;
    fresh.push_back(id);
    std::size_t& mine = bytes[static_cast<std::size_t>(port.writer)];
    mine += arena_bytes(geometry);
    if (mine > station_.config.buffer_limit && !reckoned_ports_.empty()) return false;
  }
  slot_bytes_of_ = std::move(bytes);
  reckoned_ports_.insert(fresh.begin(), fresh.end());
  return true;
}

// Every rank has passed the barrier of this operation, so no message is in any ring but the barrier's own.
void Runner::forget_rings() {
  ++generation_;
  programs_.clear();
  last_plan_ = nullptr;
  reckoned_ports_.clear();
  slot_bytes_of_.assign(slot_bytes_of_.size(), 0);
  connections_.forget_all_but(*quiesce_program_);
  for (const auto& transport : station_.transports) transport->forget_all_but(quiesce_ports_);
  station_.arena->forget_rings(kept_rings_);
}

bool Runner::move_transports() {
  bool moved = false;
  for (Transport* mover : station_.movers) moved = mover->progress() || moved;
  return moved;
}

bool Runner::drained() const {
  for (const Transport* mover : station_.movers)
    if (!mover->drained()) return false;
  return true;
}

// ---- trouble --------------------------------------------------------------------------------------------------------

// Called now and then while an operation does not move.
void Runner::look_around(Operation& op, Clock::duration waited) {
  ControlPlane* const control = station_.control.get();
  if (control == nullptr || op.phase == Operation::Phase::finished) return;
  if (control->fault_raised()) return fail(op, control->fault());
  const Clock::time_point now = Clock::now();
  if (op.deadline == Clock::time_point{}) op.deadline = now - waited + station_.config.timeout;
  const bool mismatched = op.mismatched_rank >= 0;
  const Clock::duration patience = station_.ranks_share_cores ? kStallWhenShared : kStallWhenAlone;
  if ((mismatched || waited > patience) && now > op.next_report) {
    station_.board->set_waiting(waiting_text(op));
    control->report_stall(op.record);
    op.next_report = now + kReportAgain;
  }
  if (mismatched && waited > kMismatchPatience)
    return fail(op,
                Error(ErrorCode::invalid_usage, "calls do not match: " + rank_name(station_.rank) + " called " +
                                                    describe(op.record) + ", but the message that " +
                                                    rank_name(op.mismatched_rank) + " sent belongs to another call"));
  if (now > op.deadline) time_out(op);
}

// Says who is late. The question to the other ranks takes up to a second and needs the engine's thread, so that thread
// has another one ask.
void Runner::time_out(Operation& op) {
  station_.board->set_waiting(waiting_text(op));
  const auto report = [this, record = op.record] {
    const double seconds = std::chrono::duration<double>(station_.config.timeout).count();
    std::array<char, 32> limit{};
    std::snprintf(limit.data(), limit.size(), "%g s", seconds);
    const std::string found = station_.control->inspect(record);
    station_.control->raise(ErrorCode::timeout, rank_name(station_.rank) + ": " + describe(record) +
                                                    " did not complete within " + limit.data() + ": " + found);
  };
  op.deadline = Clock::now() + std::chrono::hours(1);  // asked once
  if (helpers_.load() == 0 && queued_.load() != 0) {
    timeout_reporter_ = std::thread(report);
    return;
  }
  report();
  fail(op, station_.control->fault());
}

std::string Runner::waiting_text(const Operation& op) const {
  switch (op.phase) {
    case Operation::Phase::connecting:
      return rank_name(connections_.missing_writer(*op.program)) + " to enter the operation";
    case Operation::Phase::running: return op.execution.waiting_for();
    case Operation::Phase::draining: return "messages to leave for other hosts";
    default: return {};
  }
}

void Runner::fail(Operation& op, const Error& error) {
  Error first = error;
  if (ControlPlane* const control = station_.control.get()) {
    if (!control->fault_raised()) control->raise(error.code(), error.what());
    if (control->fault_raised()) first = control->fault();
  }
  op.error = first;
  op.phase = Operation::Phase::finished;
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = first;
  failed_.store(true, std::memory_order_release);
}

void Runner::abort(const std::string& reason) {
  const std::string message = rank_name(station_.rank) + " called abort" + (reason.empty() ? "" : ": " + reason);
  if (station_.control != nullptr) {
    station_.control->raise(ErrorCode::aborted, message);
    return;
  }
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = Error(ErrorCode::aborted, message);
  failed_.store(true, std::memory_order_release);
}

void Runner::close() noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    leave();
  } catch (const std::exception& error) {
    base::log(base::LogLevel::warn, rank_name(station_.rank) + " did not leave in good order: " + error.what());
  }
}

void Runner::leave() {
  if (fork_guard_.forked()) {  // the parent's sockets and thread are not ours to end
    new Station(std::move(station_));
    return;
  }
  if (station_.engine != nullptr) station_.engine->remove(this);
  take_drive();
  while (const auto head = front()) {
    if (!head->operation.error)
      head->operation.error =
          Error(ErrorCode::aborted, rank_name(station_.rank) + " destroyed its communicator while " +
                                        describe(head->operation.record) + " was in progress");
    pop(*head);
  }
  release_drive();
  if (station_.control == nullptr) return;
  if (!failed_.load() && !station_.control->fault_raised()) {
    const auto deadline = Clock::now() + kLeaveTimeout;
    for (Transport* mover : station_.movers) mover->flush(deadline);
  }
  station_.control->leave(station_.board->finished());
}

}  // namespace tutti::runtime

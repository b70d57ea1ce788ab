// When an operation of a Runner does not come to its end: stalls, disagreements, deadlines, faults, leaving.
#include <array>
#include <cstdio>
#include <utility>

#include "src/base/log.h"
#include "src/runtime/runner.h"

namespace tutti::runtime {
namespace {

constexpr Clock::duration kStallWhenAlone = std::chrono::milliseconds(1);    // every rank has a core
constexpr Clock::duration kStallWhenShared = std::chrono::milliseconds(20);  // ranks wait for their turn
constexpr Clock::duration kReportAgain = std::chrono::milliseconds(100);
constexpr Clock::duration kMismatchPatience =
    std::chrono::milliseconds(500);  // for the control plane to name both calls

// A rank that ends without destroying its communicator may have sent all that this operation needs. If not, the
// operation stands still from then on; this long, for what goes by way of others.
constexpr Clock::duration kGraceAfterDeath = std::chrono::milliseconds(250);
// A peer touches our memory for the time of one slice. A process that is stopped or dead in its midst may take for
// ever; a thread of ours only waits for its turn, and what it writes to may be freed.
constexpr Clock::duration kRevokePatience = std::chrono::milliseconds(500);
constexpr Clock::duration kThreadPatience = std::chrono::seconds(60);
constexpr std::size_t kLongestReason = 4096;

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

void Runner::look_or_fail(Operation& op, Clock::duration waited) {
  try {
    look_around(op, waited);
  } catch (const std::exception& error) {
    fail(op, Error(ErrorCode::internal_error, self() + ": " + error.what()));
  }
}

// Called now and then while an operation does not move.
void Runner::look_around(Operation& op, Clock::duration waited) {
  ControlPlane* const control = station_.control.get();
  if (control == nullptr || op.phase == Operation::Phase::finished) return;
  if (control->fault_raised()) {
    const Error fault = control->fault();
    if (fault.code() == ErrorCode::remote_error && waited < kGraceAfterDeath) return;
    return fail(op, fault);
  }
  if (waited >= kGraceAfterDeath)
    for (const Transport* mover : station_.movers)
      if (const auto loss = mover->loss()) return fail(op, *loss);
  if (waited >= kGraceAfterDeath && op.request == nullptr && look_for_leavers(op)) return;
  const Clock::time_point now = Clock::now();
  if (op.deadline == Clock::time_point{}) op.deadline = now - waited + station_.config.timeout;
  const bool mismatched = op.mismatched_rank >= 0;
  const Clock::duration patience = station_.cores == Cores::own ? kStallWhenAlone : kStallWhenShared;
  if ((mismatched || waited > patience) && now > op.next_report) {
    station_.board->set_waiting(op.record, waiting_text(op));
    // Fingerprints are chained, so the call that differs may be the one before.
    const bool look_back = mismatched && waited > kMismatchPatience / 2 && op.record.sequence > 1;
    control->report_stall(look_back ? station_.board->recent(op.record.sequence - 1) : op.record);
    op.next_report = now + (mismatched ? kReportAgain / 4 : kReportAgain);
  }
  if (mismatched && waited > kMismatchPatience)
    return fail(op, Error(ErrorCode::invalid_usage, "calls do not match: " + self() + " called " + describe(op.record) +
                                                        ", but the message that " + rank_name(op.mismatched_rank) +
                                                        " sent belongs to another call"));
  if (now > op.deadline) time_out(op);
}

// Says who is late. The question to the other ranks takes up to a second and needs the engine's thread, so that thread
// has another one ask.
void Runner::time_out(Operation& op) {
  station_.board->set_waiting(op.record, waiting_text(op));
  if (!station_.engine->on_thread()) {
    report_timeout(op.record);
    return fail(op, station_.control->fault());
  }
  op.deadline = Clock::now() + std::chrono::seconds(2);  // the fault is here by then, or it is asked again
  if (reporting_.load()) return;
  if (timeout_reporter_.joinable()) timeout_reporter_.join();  // it has ended
  reporting_.store(true);
  timeout_reporter_ = std::thread([this, record = op.record] {
    report_timeout(record);
    reporting_.store(false);
  });
}

void Runner::report_timeout(const OperationRecord& record) {
  std::array<char, 32> limit{};
  std::snprintf(limit.data(), limit.size(), "%g s", std::chrono::duration<double>(station_.config.timeout).count());
  const std::string found = station_.control->inspect(record);
  if (station_.board->has_finished(record)) return;  // it came through after all
  station_.control->raise(ErrorCode::timeout,
                          self() + ": " + describe(record) + " did not complete within " + limit.data() + ": " + found);
}

std::string Runner::waiting_text(const Operation& op) const {
  if (op.request == nullptr) return op.phase == Operation::Phase::accepted ? "" : exchange_.waiting_for();
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
  revoke(op);
  op.error = first;
  op.phase = Operation::Phase::finished;
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = first;
  failed_.store(true, std::memory_order_release);
}

// The caller gets its buffers back although the operation failed: peers that touch them stop now.
void Runner::revoke(const Operation& op) {
  if (op.phase != Operation::Phase::running) return;
  if (op.request != nullptr ? op.call->direct : exchange_.lends()) revoke_buffers();
}

void Runner::revoke_buffers() {
  station_.arena->view().direct().revoked.store(1, std::memory_order_seq_cst);
  const Clock::time_point now = Clock::now();
  for (int rank = 0; rank < station_.size; ++rank) {
    Transport* const transport = station_.transport_of[static_cast<std::size_t>(rank)];
    const DirectFlags* const peer = transport == nullptr ? nullptr : transport->direct_flags(rank);
    if (peer == nullptr) continue;
    const auto deadline = now + (transport->reach(rank) == Reach::process ? kThreadPatience : kRevokePatience);
    while (peer->touching.load(std::memory_order_seq_cst) != 0 && Clock::now() < deadline) ::sched_yield();
  }
}

void Runner::abort(const std::string& reason) {
  const std::string message =
      self() + " called abort" + (reason.empty() ? "" : ": " + reason.substr(0, kLongestReason));
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
    base::log(base::LogLevel::warn, self() + " did not leave in good order: " + error.what());
  }
}

// Before a call counts: what is thrown here goes to the caller.
void Runner::look_while_others_plan(Clock::duration waited) const {
  if (station_.control->fault_raised()) throw station_.control->fault();
  if (waited < station_.config.timeout) return;
  throw Error(ErrorCode::timeout,
              self() + " waited for the timeout of " + std::to_string(station_.config.timeout.count()) + " ms" +
                  " while another thread of its process chose an algorithm; give the process more processor time, or "
                  "raise TUTTI_TIMEOUT");
}

void Runner::leave() {
  if (fork_guard_.forked()) {  // the parent's sockets and thread are not ours to end
    new Station(std::move(station_));
    return;
  }
  if (station_.engine != nullptr) station_.engine->remove(this);
  take_drive();
  while (const auto head = front()) {
    revoke(head->operation);
    if (!head->operation.error)
      head->operation.error = Error(ErrorCode::aborted, self() + " destroyed its communicator while " +
                                                            describe(head->operation.record) + " was in progress");
    pop(*head);
  }
  driving_.store(false, std::memory_order_release);
  if (station_.control == nullptr) return;
  if (!failed_.load() && !station_.control->fault_raised()) {
    const auto deadline = Clock::now() + kLeaveTimeout / 2;  // the other half is the control plane's
    for (Transport* mover : station_.movers) mover->flush(deadline);
  }
  station_.control->leave(station_.board->finished());
  // A Work may outlive the communicator; sockets and slots do not.
  station_.movers.clear();
  station_.transports.clear();
}

}  // namespace tutti::runtime

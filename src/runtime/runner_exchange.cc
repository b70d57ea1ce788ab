// One exchange of a Runner. It goes through the same queue as collectives, but takes no sequence number and has no part
// in the chain of fingerprints: ranks make different numbers of them.
#include <algorithm>
#include <utility>

#include "src/runtime/runner.h"

namespace tutti::runtime {

void Runner::accept(Operation& op, Transfers transfers) {
  if (std::any_of(transfers.begin(), transfers.end(), [this](const Transfer& t) { return t.peer != station_.rank; }))
    pairs_.check();
  op.request = nullptr;
  op.transfers = transfers;
  op.record = {.sequence = sequence_, .exchange = ++exchanges_};
  op.deadline = {};
  op.phase = Operation::Phase::accepted;
  op.queued = false;
  op.next_report = {};
  op.mismatched_rank = -1;
  op.moves = op.tests = 0;
  op.error.reset();
  op.blocked_since = {};
}

Runner::Step Runner::step_exchange(Operation& op, Look look) {
  using Phase = Operation::Phase;
  bool moved = false;
  if (op.phase == Phase::accepted) {
    if (op.queued) check_usable(op);
    station_.board->enter_exchange(op.record.exchange);
    exchange_.start(op.transfers);
    op.phase = Phase::running;
  }
  if (op.phase == Phase::running) {
    const Exchange::State state = exchange_.advance();
    moved = move_transports(look) || state == Exchange::State::moved;
    if (state == Exchange::State::mismatch) throw Error(ErrorCode::invalid_usage, exchange_.mismatch());
    if (state != Exchange::State::done) return moved ? Step::moved : Step::blocked;
    op.phase = Phase::draining;
  }
  if (op.phase == Phase::draining) {
    if (!drained()) return move_transports(look) || moved ? Step::moved : Step::blocked;
    station_.board->finish_exchange(op.record.exchange);
    op.phase = Phase::finished;
  }
  return Step::finished;
}

// A rank that has left will send and take nothing more; what it had sent is here by now.
bool Runner::look_for_leavers(Operation& op) {
  for (int peer = 0; peer < station_.size; ++peer) {
    if (!station_.control->has_left(peer) || !exchange_.waits_for(peer)) continue;
    fail(op,
         Error(ErrorCode::remote_error, "rank " + std::to_string(peer) + " has left the communicator, but " + self() +
                                            " waits in " + describe(op.record) + " for " + exchange_.waiting_for()));
    return true;
  }
  return false;
}

}  // namespace tutti::runtime

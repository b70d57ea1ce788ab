// One operation of a Runner: from the call to its last step.
#include <algorithm>

#include "src/base/env.h"
#include "src/runtime/memory.h"
#include "src/runtime/runner.h"
#include "src/schedule/collectives.h"

namespace tutti::runtime {
namespace {

// Averages of float16 and of the 8-bit floats are scaled before the sum, which might not fit the type otherwise.
bool scales_before_sum(DataType type) {
  return type == DataType::float16 || type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
}

// "ring in 2 lanes, 8 slots of 64 KiB"
std::string in_words(const planner::Plan& plan) {
  const std::size_t lanes = plan.schedule->programs.front().lanes.size();
  return plan.schedule->name + " in " + std::to_string(lanes) + (lanes == 1 ? " lane, " : " lanes, ") +
         std::to_string(plan.slots) + " slots of " + base::format_bytes(plan.slot_bytes);
}

bool same_call(const Request& a, const Request& b) {
  return a.count == b.count && a.type == b.type && a.op == b.op && a.collective == b.collective && a.root == b.root;
}

}  // namespace

// The plan is chosen at the call, on the caller's thread: what is forced later does not change it, and a call that no
// algorithm fits is refused without any effect.
void Runner::accept(Operation& op, const Request& request) {
  const bool repeated = known_.plan != nullptr && same_call(known_.request, request);
  if (!repeated) {
    known_ = {};
    const planner::Plan& plan =
        station_.plans->plan(request.collective, request.type, request.op, request.root, request.count);
    const OperationRecord record{0, request.collective, request.type, request.op, request.root, request.count, plan.id};
    known_ = {request, &plan, ++kinds_, hash_of_kind(record)};
  }
  op.request = &request;
  op.plan = known_.plan;
  op.kind = known_.kind;
  op.record = {++sequence_, request.collective, request.type, request.op, request.root, request.count, op.plan->id};
  op.fingerprint = fingerprint(known_.hash, op.record.sequence, last_fingerprint_);
  last_fingerprint_ = op.fingerprint;
  op.deadline = {};  // set when the operation first has to wait: a look at the clock costs as much as a small message
  op.phase = Operation::Phase::accepted;
  op.queued = false;
  op.quiescing = false;
  op.next_report = {};
  op.mismatched_rank = -1;
  op.moves = op.tests = 0;
  op.error.reset();
  op.blocked_since = {};
}

Runner::Step Runner::step_or_fail(Operation& op, Look look) {
  try {
    return step(op, look);
  } catch (const Error& error) {
    fail(op, error);
  } catch (const std::exception& error) {
    fail(op, Error(ErrorCode::internal_error, self() + ": " + error.what()));
  }
  return Step::finished;
}

Runner::Step Runner::step(Operation& op, Look look) {
  using Phase = Operation::Phase;
  if (op.request == nullptr) return step_exchange(op, look);
  if (op.phase == Phase::accepted) {
    if (op.queued) check_usable(op);
    prepare(op);
  }
  if (op.phase == Phase::connecting) {
    if (op.program->unbound != 0 && !connections_.bind_receives(*op.program))
      return move_transports(look) ? Step::moved : Step::blocked;
    op.execution.start(*op.program, *op.call, kEpoch);
    op.phase = Phase::running;
  }
  bool moved = false;
  if (op.phase == Phase::running) {
    const Execution::State state = op.execution.advance();
    moved = move_transports(look) || state == Execution::State::moved;
    if (state == Execution::State::mismatch) op.mismatched_rank = op.execution.mismatched_rank();
    if (state != Execution::State::done) return moved ? Step::moved : Step::blocked;
    op.phase = Phase::draining;
  }
  if (op.phase == Phase::draining) {
    if (!drained()) return move_transports(look) || moved ? Step::moved : Step::blocked;
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

// Finds the program, and makes the call ready to run.
void Runner::prepare(Operation& op) {
  station_.board->enter(op.record);
  if (prepared_.program == nullptr || prepared_.kind != op.kind) prepare_anew(op);
  op.program = prepared_.program;
  Call* call = &prepared_.call;
  if (op.program == nullptr) {  // slot memory is full: all ranks clear theirs first, at this same operation
    op.quiescing = true;
    op.program = quiesce_program_.get();
    connections_.carry(*op.program);
    quiesce_call_ = prepared_.call;
    quiesce_call_.count = 0;
    quiesce_call_.rounds = 1;
    quiesce_call_.direct = false;
    call = &quiesce_call_;
  }
  if (call->direct) locate_buffers(op, *call);
  call->input = static_cast<const std::byte*>(op.request->input);
  call->output = static_cast<std::byte*>(op.request->output);
  call->fingerprint = op.fingerprint;
  if (op.request->op == ReduceOp::premul_sum) call->factor = op.request->factor;
  op.call = call;
  op.phase = Operation::Phase::connecting;
}

// Everything about a call that does not depend on its buffers and its number.
void Runner::prepare_anew(Operation& op) {
  const Request& request = *op.request;
  const planner::Plan& plan = *op.plan;
  prepared_ = {op.kind, program_for(plan), {}};
  Call& call = prepared_.call;
  call.count = request.count;
  call.element_bytes = size_of(request.type);
  call.slice = plan.slice_elements(request.count, request.type);
  call.rounds = plan.rounds(request.count, request.type);
  call.reduce = station_.kernels->reduce[static_cast<std::size_t>(request.type)][static_cast<std::size_t>(request.op)];
  call.copy = station_.kernels->copy;
  if (request.op == ReduceOp::premul_sum) {
    call.prescales = true;
  } else if (request.op == ReduceOp::avg && station_.size > 1) {
    call.prescales = scales_before_sum(request.type);
    call.factor = Factor(static_cast<float>(1.0 / station_.size)).bits();
    call.postdivide = call.prescales ? 1 : station_.size;
  } else if (request.type == DataType::boolean) {
    call.prescales = station_.size == 1;  // the kernel makes it 0 or 1, as it does whatever it reduces
  }
  const schedule::Schedule& schedule = *plan.schedule;
  call.direct = schedule.direct && station_.size > 1 &&
                call.slice * call.element_bytes * static_cast<std::size_t>(plan.shape.message_chunks) >= kDirectFrom;
  call.output_bytes = request.count * call.element_bytes * static_cast<std::size_t>(schedule.output_blocks);
  call.flags = station_.arena != nullptr ? &station_.arena->view().direct() : nullptr;
  const int outputs = schedule::traits_of(request.collective).output_at_root ? 1 : station_.local_size;
  call.streaming = call.output_bytes * static_cast<std::size_t>(outputs) >= kStreamingBytes;
  if (schedule.scratch_chunks > 0)
    call.scratch = scratch(request.count * call.element_bytes * static_cast<std::size_t>(schedule.scratch_blocks));
}

// Where peers find the call's buffers.
void Runner::locate_buffers(const Operation& op, Call& call) const {
  const auto locate = [](const void* data, std::size_t bytes) {
    MemoryAddress at{.local = static_cast<const std::byte*>(data)};
    if (const auto place = find_segment(data, bytes)) {
      at.segment = place->segment;
      at.offset = place->offset;
    }
    return at;
  };
  const Request& request = *op.request;
  const auto input_blocks = static_cast<std::size_t>(op.plan->schedule->input_blocks);
  const bool reads = schedule::has_input(request.collective, request.root, station_.rank);
  const bool writes = schedule::has_output(request.collective, request.root, station_.rank);
  call.sequence = op.record.sequence;
  call.input_at = call.output_at = {};
  if (reads) call.input_at = locate(request.input, call.count * call.element_bytes * input_blocks);
  if (writes)
    call.output_at =
        reads && request.output == request.input ? call.input_at : locate(request.output, call.output_bytes);
}

std::byte* Runner::scratch(std::size_t bytes) {
  if (scratch_bytes_ < bytes) {
    scratch_.reset();
    scratch_bytes_ = 0;
    try {
      scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::system_error, self() + " has no memory for " + base::format_bytes(bytes) + " of scratch");
    }
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

// The plan's program, made at first use; null when the slots of its ports do not fit any more.
BoundProgram* Runner::program_for(const planner::Plan& plan) {
  std::unique_ptr<BoundProgram>& program = programs_[&plan];
  if (program == nullptr) {
    if (!budget_.add(plan, generation_)) return nullptr;
    auto made = std::make_unique<BoundProgram>();
    bind(*made, *plan.schedule, plan.slots, plan.slot_bytes, generation_);
    connections_.carry(*made);
    program = std::move(made);
    station_.board->name_plan(plan.id, in_words(plan));
  }
  return program.get();
}

void Runner::bind(BoundProgram& program, const schedule::Schedule& schedule, std::uint32_t slots,
                  std::uint32_t slot_bytes, std::uint32_t generation) {
  program.code = lower(schedule, station_.rank, slots, slot_bytes, generation);
  program.cursors.resize(program.code.lanes());
  program.inputs.resize(program.code.most_operands);
  program.outputs.resize(program.code.most_destinations);
  connections_.make_rings(program);
  program.receives.assign(program.code.receives.size(), nullptr);
  program.unbound = program.receives.size();
}

// Every rank has passed the barrier of this operation, so no message is in any ring but the barrier's own and those of
// pairs, which last.
void Runner::forget_rings() {
  ++generation_;
  programs_.clear();
  prepared_ = {};
  budget_.clear();
  connections_.forget_all_but(*quiesce_program_);
  for (const auto& transport : station_.transports) transport->forget_all_but(quiesce_ports_);
  station_.arena->forget_rings(kept_rings_);
}

bool Runner::move_transports(Look look) {
  bool moved = false;
  for (Transport* mover : station_.movers) moved = (look == Look::quick ? mover->progress() : mover->settle()) || moved;
  return moved;
}

bool Runner::restless() const {
  return std::any_of(station_.transports.begin(), station_.transports.end(),
                     [](const auto& transport) { return transport->restless(); });
}

bool Runner::drained() const {
  for (const Transport* mover : station_.movers)
    if (!mover->drained()) return false;
  return true;
}

}  // namespace tutti::runtime

// The executor's loop for an exchange: a one-shot whose messages fit into their slots, the form in which small calls
// run.
//
// Nobody acknowledges in it (the schedule proves that slots are free in time), nothing depends on lanes or places, so
// what is left is: publish the input, look for one message after the other, reduce them all into the output. Messages
// and bits are those of the general loop; tests/runtime/lowering_test.cc runs both.
#include <cstring>

#include "src/runtime/executor.h"

namespace tutti::runtime {

using schedule::Operand;

namespace {

// Looks at a message this often before the caller is asked whether to go on waiting.
constexpr int kPolls = 16;

}  // namespace

Execution::State Execution::exchange() {
  if (lanes_left_ == 0) return State::done;
  BoundProgram::Cursor& cursor = program_->cursors[0];
  State state = State::blocked;
  if (cursor.step == 0) {
    publish();
    cursor.step = 1;
    state = State::moved;
  }
  for (; arrived_ < program_->receives.size(); ++arrived_) {
    const ReceiveEnd& end = *program_->receives[arrived_];
    const std::uint64_t expected = stamp_of(epoch_, end.next);
    int polls = 0;
    while (end.slot->stamp.load(std::memory_order_acquire) != expected)
      if (++polls == kPolls) return state;
    state = State::moved;
    if (end.slot->fingerprint == call_->fingerprint) continue;
    mismatched_rank_ = end.writer;
    return State::mismatch;
  }
  finish_exchange();
  cursor.round = 1;
  lanes_left_ = 0;
  return State::done;
}

void Execution::publish() {
  const CompiledStep& step = program_->code.steps[0];
  const std::size_t bytes = call_->count * call_->element_bytes;
  SendEnd& end = *program_->sends[0];
  program_->inputs[0] = {call_->input, scales(program_->code.operands[step.in_begin])};
  program_->outputs[0] = {Ring::payload(*end.slot, bytes), false};
  combine(step, 1, 1, bytes);
  end.slot->size = static_cast<std::uint32_t>(bytes);
  end.slot->fingerprint = call_->fingerprint;
  end.slot->stamp.store(stamp_of(epoch_, end.next), std::memory_order_release);
  end.pass();
  for (const PeerMemory& reader : end.readers) reader.wake();
}

void Execution::finish_exchange() {
  const CompiledStep& step = program_->code.steps[1];
  const std::size_t bytes = call_->count * call_->element_bytes;
  const std::uint32_t ins = step.in_end - step.in_begin;
  for (std::uint32_t i = 0; i < ins; ++i) {
    const CompiledOperand& operand = program_->code.operands[step.in_begin + i];
    if (operand.kind == Operand::Kind::local) {
      program_->inputs[i] = {call_->input, scales(operand)};
    } else {
      ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(operand.index)];
      program_->inputs[i] = {Ring::payload(*end.slot, bytes), false};
      end.pass();
    }
  }
  program_->outputs[0] = {call_->output, call_->streaming};
  combine(step, ins, 1, bytes);
}

}  // namespace tutti::runtime

// The executor's loop for an exchange: a one-shot whose messages fit into their slots, the form in which small calls
// run.
//
// Nobody acknowledges in it (the schedule proves that slots are free in time), nothing depends on lanes or places, so
// what is left is: publish the input, look for one message after the other, reduce them all into the output. Messages
// and bits are those of the general loop; tests/runtime/lowering_test.cc runs both.
#include <algorithm>
#include <cstring>

#include "src/runtime/executor.h"

namespace tutti::runtime {

using schedule::Operand;

namespace {

// Looks at a message this often before the caller is asked whether to go on waiting.
constexpr int kPolls = 16;

// Lines that are asked for ahead; more of them would only be in each other's way.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kLine = 64;

template <class Ask>
void each_line(const SlotHeader& slot, std::size_t bytes, Ask ask) {
  const std::byte* const first = reinterpret_cast<const std::byte*>(&slot);
  ask(first);
  if (bytes <= kInlineBytes) return;
  const std::size_t lines = std::min((bytes + kLine - 1) / kLine, kAhead);
  for (std::size_t i = 1; i <= lines; ++i) ask(first + i * kLine);
}

// Asks for the payload of a message that has arrived: the code between here and its use takes as long as the lines do.
void fetch(const SlotHeader& slot, std::size_t bytes) {
  each_line(slot, bytes, [](const std::byte* line) { __builtin_prefetch(line); });
}

// Takes the lines that the next message will be written to back from their readers, while this call waits anyway.
void claim(const SlotHeader& slot, std::size_t bytes) {
  each_line(slot, bytes, [](const std::byte* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*line));  // what the builtin becomes only where it is told of the instruction
#else
    __builtin_prefetch(line, 1);
#endif
  });
}

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
    fetch(*end.slot, call_->count * call_->element_bytes);
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
  std::byte* const payload = Ring::payload(*end.slot, bytes);
  if (const CompiledOperand& raw = program_->code.operands[step.in_begin]; scales(raw)) {
    program_->inputs[0] = local_input(raw, call_->input);
    program_->outputs[0] = {payload, false};
    combine(step, 1, 1, bytes);
  } else if (bytes != 0) {
    std::memcpy(payload, call_->input, bytes);
  }
  end.slot->size = static_cast<std::uint32_t>(bytes);
  end.slot->fingerprint = call_->fingerprint;
  end.slot->stamp.store(stamp_of(epoch_, end.next), std::memory_order_release);
  end.pass();
  for (const PeerMemory& reader : end.readers) reader.wake();
  claim(*end.slot, bytes);
}

void Execution::finish_exchange() {
  const CompiledStep& step = program_->code.steps[1];
  const std::size_t bytes = call_->count * call_->element_bytes;
  const std::uint32_t ins = step.in_end - step.in_begin;
  for (std::uint32_t i = 0; i < ins; ++i) {
    const CompiledOperand& operand = program_->code.operands[step.in_begin + i];
    if (operand.kind == Operand::Kind::local) {
      program_->inputs[i] = local_input(operand, call_->input);
    } else {
      ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(operand.index)];
      program_->inputs[i] = {Ring::payload(*end.slot, bytes)};
      end.pass();
    }
  }
  program_->outputs[0] = {call_->output, call_->streaming};
  if (ins == 1 || bytes == 0) return combine(step, ins, 1, bytes);
  const std::span<const ReduceInput> in(program_->inputs.data(), ins);
  call_->reduce({in, {program_->outputs.data(), 1}, call_->count, step.postscale ? call_->postdivide : 1});
}

}  // namespace tutti::runtime

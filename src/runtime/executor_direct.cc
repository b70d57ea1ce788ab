// The executor's part in direct transfers (direct.h): which way a message travels, and what both ends owe for it.
//
// A message is lent if all its readers reach the buffer it lies in; else it is placed if all readers store it and have
// announced outputs that this rank reaches; else it is copied. A message of several chunks in one of several rounds is
// not contiguous, so it is copied.
#include <cstring>

#include "src/runtime/executor.h"
#include "src/runtime/transport.h"

namespace tutti::runtime {

using schedule::Buffer;
using schedule::Operand;

void PeerMemory::ring() const { transport->ring(rank); }

// Tells the writers of our ports where the output lies. They wait for this, whether it can be reached or not.
void Execution::announce() {
  for (std::size_t i = 0; i < program_->receives.size(); ++i) {
    const ReceiveEnd& end = *program_->receives[i];
    if (!program_->code.receives[i].places || end.memory.reach == Reach::none) continue;
    ReaderLine& line = end.ring.line(end.reader);
    line.output = call_->output_at.reachable(end.memory.reach) ? call_->output_at : MemoryAddress{};
    line.fingerprint = call_->fingerprint;
    line.announced.store(stamp_of(epoch_, call_->sequence), std::memory_order_release);
    end.memory.wake();
  }
}

// Finds where all readers of `end` want messages placed; blocked while one has not said so, or its memory is being
// mapped. The buffer of another call than ours may be smaller: there we place nothing.
Execution::Fire Execution::find_targets(SendEnd& end) {
  const std::uint64_t stamp = stamp_of(epoch_, call_->sequence);
  if (end.targets_of == stamp) return Fire::fired;
  const std::uint32_t readers = end.ring.geometry.readers;
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    const ReaderLine& line = end.ring.line(reader);
    if (line.announced.load(std::memory_order_acquire) != stamp) return Fire::blocked;
    if (line.fingerprint != call_->fingerprint) {
      mismatched_rank_ = end.readers[reader].rank;
      return Fire::mismatch;
    }
  }
  end.targets.clear();
  bool all_reached = true;
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    const PeerMemory& peer = end.readers[reader];
    const MemoryAddress where = end.ring.line(reader).output;
    all_reached = all_reached && where.reachable(peer.reach);
    if (!all_reached) continue;
    const auto target = peer.transport->map(peer.rank, where, call_->output_bytes);
    if (!target) return Fire::blocked;
    end.targets.push_back(*target);
  }
  if (!all_reached) end.targets.clear();
  end.targets_of = stamp;
  return Fire::fired;
}

Execution::Direct Execution::look_for_direct(const CompiledStep& step) {
  const CompiledProgram& code = program_->code;
  Direct direct;
  for (std::uint32_t i = step.in_begin; i < step.in_end; ++i) {
    if (code.operands[i].kind != Operand::Kind::recv) continue;
    ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(code.operands[i].index)];
    const SlotHeader& slot = *end.slot;
    if ((slot.size & SlotHeader::kLent) == 0) continue;
    LentMessage message;
    std::memcpy(&message, slot.inline_data, sizeof message);
    const auto lent = end.memory.transport->map(end.memory.rank, message.at, slot.bytes());
    if (!lent) direct.found = Fire::blocked;
    end.lent = lent.value_or(nullptr);
    direct.touches = true;
  }
  if (direct.found != Fire::fired || step.send < 0 || (call_->rounds > 1 && step.chunks > 1)) return direct;
  SendEnd& end = *program_->sends[static_cast<std::size_t>(step.send)];
  if (end.reach == Reach::none) return direct;
  if (step.lends) {
    const Buffer buffer = code.operands[step.in_begin].buffer;
    if ((buffer == Buffer::input ? call_->input_at : call_->output_at).reachable(end.reach)) {
      direct.send = Way::lent;
      return direct;
    }
  }
  if (step.place_begin < 0) return direct;
  direct.found = find_targets(end);
  if (direct.found == Fire::fired && !end.targets.empty()) {
    direct.send = Way::placed;
    direct.touches = true;
  }
  return direct;
}

// Raises `touching`, unless one of those whose memory the step touches has revoked it.
bool Execution::touch(const CompiledStep& step, const Direct& direct) {
  const CompiledProgram& code = program_->code;
  call_->flags->touching.store(1, std::memory_order_seq_cst);
  bool revoked = false;
  const auto look = [&](const PeerMemory& peer) {
    revoked = revoked || peer.flags->revoked.load(std::memory_order_seq_cst) != 0;
  };
  for (std::uint32_t i = step.in_begin; i < step.in_end; ++i) {
    if (code.operands[i].kind != Operand::Kind::recv) continue;
    const ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(code.operands[i].index)];
    if (end.lent != nullptr) look(end.memory);
  }
  if (direct.send == Way::placed)
    for (const PeerMemory& peer : program_->sends[static_cast<std::size_t>(step.send)]->readers) look(peer);
  if (revoked) call_->flags->touching.store(0, std::memory_order_release);
  return !revoked;
}

// Writes into the header where the message lies and, of a raw contribution, what its owner multiplies it by: the
// readers do so in its place.
void Execution::lend(const CompiledStep& step, std::uint64_t round, SlotHeader& slot) const {
  const CompiledOperand& operand = program_->code.operands[step.in_begin];
  const Place at = place(operand.buffer, operand.index, step.chunks, round);
  const MemoryAddress& buffer = operand.buffer == Buffer::input ? call_->input_at : call_->output_at;
  const LentMessage message{buffer.at(at.begin * call_->element_bytes), call_->factor};
  std::memcpy(slot.inline_data, &message, sizeof message);
  slot.size |= SlotHeader::kLent | (scales(operand) ? SlotHeader::kPrescale : 0);
}

ReduceInput Execution::lent_input(const ReceiveEnd& end) const {
  LentMessage message;
  std::memcpy(&message, end.slot->inline_data, sizeof message);
  return {end.lent, (end.slot->size & SlotHeader::kPrescale) != 0, message.factor};
}

// Whether the readers are done with everything that was lent. Ports that nobody acknowledges are proved to be.
bool Execution::reclaimed() const {
  for (const SendEnd* end : program_->sends) {
    if (!end->acknowledged) continue;
    for (std::uint32_t reader = 0; reader < end->ring.geometry.readers; ++reader)
      if (end->ring.released(reader).load(std::memory_order_acquire) < end->lent_until) return false;
  }
  return true;
}

}  // namespace tutti::runtime

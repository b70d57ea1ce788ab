#include "src/runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "src/schedule/partition.h"

namespace tutti::runtime {

using schedule::Buffer;
using schedule::Operand;

void Execution::start(BoundProgram& program, const Call& call, std::uint16_t epoch) {
  program_ = &program;
  call_ = &call;
  epoch_ = epoch;
  arrived_ = 0;
  exchange_ = program.code.exchange && call.rounds == 1;
  lanes_left_ = 0;
  for (std::size_t i = 0; program.windows && i < program.receives.size(); ++i) {
    const ReceiveEnd& end = *program.receives[i];
    if (end.window != nullptr) *end.window = {end.next, end.next + program.code.receives[i].per_round * call.rounds};
  }
  if (exchange_) {
    program.cursors[0] = {};
    lanes_left_ = 1;
    return;
  }
  for (std::size_t lane = 0; lane < program.code.lanes(); ++lane) {
    program.cursors[lane] = {};
    const bool empty = program.code.lane_begin[lane] == program.code.lane_begin[lane + 1];
    if (empty)
      program.cursors[lane].round = call_->rounds;
    else
      ++lanes_left_;
  }
  if (call_->direct) announce();
}

Execution::State Execution::advance() {
  if (exchange_) return exchange();
  const CompiledProgram& code = program_->code;
  bool moved = false;
  for (std::size_t lane = 0; lane < code.lanes(); ++lane) {
    BoundProgram::Cursor& cursor = program_->cursors[lane];
    const std::uint32_t steps = code.lane_begin[lane + 1] - code.lane_begin[lane];
    while (cursor.round < call_->rounds) {
      const Fire fired = fire(lane, code.steps[code.lane_begin[lane] + cursor.step]);
      if (fired == Fire::mismatch) return State::mismatch;
      if (fired == Fire::blocked) break;
      moved = true;
      if (++cursor.step < steps) continue;
      cursor.step = 0;
      if (++cursor.round == call_->rounds) --lanes_left_;
    }
  }
  if (lanes_left_ == 0 && (!call_->direct || reclaimed())) return State::done;
  return moved ? State::moved : State::blocked;
}

Execution::Fire Execution::fire(std::size_t lane, const CompiledStep& step) {
  const std::uint64_t round = program_->cursors[lane].round;
  if (!dependencies_met(step, round)) return Fire::blocked;
  if (const Fire messages = messages_there(step); messages != Fire::fired) return messages;
  if (!slot_free(step)) return Fire::blocked;
  Direct direct;
  if (call_->direct) {
    direct = look_for_direct(step);
    if (direct.found != Fire::fired) return direct.found;
    if (direct.touches && !touch(step, direct)) return Fire::blocked;
  }
  run(step, round, direct);
  if (direct.touches) call_->flags->touching.store(0, std::memory_order_release);
  return Fire::fired;
}

bool Execution::dependencies_met(const CompiledStep& step, std::uint64_t round) const {
  for (std::uint32_t i = step.after_begin; i < step.after_end; ++i) {
    const CompiledDependency& after = program_->code.dependencies[i];
    const BoundProgram::Cursor& other = program_->cursors[after.lane];
    if (other.round < round || (other.round == round && other.step <= after.step)) return false;
  }
  return true;
}

Execution::Fire Execution::messages_there(const CompiledStep& step) {
  for (std::uint32_t i = step.in_begin; i < step.in_end; ++i) {
    const CompiledOperand& operand = program_->code.operands[i];
    if (operand.kind != Operand::Kind::recv) continue;
    const ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(operand.index)];
    const SlotHeader& slot = *end.slot;
    if (slot.stamp.load(std::memory_order_acquire) != stamp_of(epoch_, end.next)) return Fire::blocked;
    if (slot.fingerprint != call_->fingerprint) {
      mismatched_rank_ = end.writer;
      return Fire::mismatch;
    }
  }
  return Fire::fired;
}

bool Execution::slot_free(const CompiledStep& step) {
  if (step.send < 0) return true;
  SendEnd& end = *program_->sends[static_cast<std::size_t>(step.send)];
  // Nobody releases the slots of an unacknowledged port: the schedule proves that the slot is free by now.
  if (!end.acknowledged || end.next < end.free_until) return true;
  std::uint64_t released = end.next;
  for (std::uint32_t reader = 0; reader < end.ring.geometry.readers; ++reader)
    released = std::min(released, end.ring.released(reader).load(std::memory_order_acquire));
  end.free_until = released + end.ring.geometry.slots;
  return end.next < end.free_until;
}

std::byte* Execution::base(Buffer buffer) const {
  switch (buffer) {
    // Steps never write the input; one pointer type keeps the kernels' tables simple.
    case Buffer::input: return const_cast<std::byte*>(call_->input);
    case Buffer::output: return call_->output;
    case Buffer::scratch: return call_->scratch;
  }
  return nullptr;
}

// Where slice `round` of `chunks` consecutive chunks lies. With several rounds, one chunk at a time.
Execution::Place Execution::place(Buffer buffer, std::int32_t chunk, std::int32_t chunks, std::uint64_t round) const {
  const BufferShape& shape = program_->code.shape[static_cast<std::size_t>(buffer)];
  const auto per_block = static_cast<std::size_t>(shape.per_block);
  const auto begin_of = [&](std::size_t index) {
    if (per_block == 1) return index * call_->count;
    return index / per_block * call_->count +
           schedule::chunk_begin(call_->count, per_block, call_->element_bytes, index % per_block);
  };
  const auto first = static_cast<std::size_t>(chunk);
  const std::size_t begin = begin_of(first);
  const schedule::Extent whole{begin, begin_of(first + static_cast<std::size_t>(chunks)) - begin};
  if (call_->rounds == 1) return {whole.begin, whole.count};
  const schedule::Extent slice = schedule::slice_extent(whole, call_->slice, round);
  return {slice.begin, slice.count};
}

// The size of what this step moves in this round, all chunks together.
std::size_t Execution::message_bytes(const CompiledStep& step, std::uint64_t round) const {
  const CompiledProgram& code = program_->code;
  const auto local_bytes = [&](Buffer buffer, std::int32_t chunk) {
    if (call_->rounds == 1) return place(buffer, chunk, step.chunks, round).count * call_->element_bytes;
    std::size_t count = 0;
    for (std::int32_t i = 0; i < step.chunks; ++i) count += place(buffer, chunk + i, 1, round).count;
    return count * call_->element_bytes;
  };
  if (step.out_begin != step.out_end) {
    const CompiledDestination& out = code.destinations[step.out_begin];
    return local_bytes(out.buffer, out.chunk);
  }
  for (std::uint32_t i = step.in_begin; i < step.in_end; ++i)
    if (code.operands[i].kind == Operand::Kind::local)
      return local_bytes(code.operands[i].buffer, code.operands[i].index);
  if (step.in_begin == step.in_end) return 0;
  // Only messages in and out: as long as what came in.
  const ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(code.operands[step.in_begin].index)];
  return end.slot->bytes();
}

bool Execution::touches_buffers(const CompiledStep& step) const {
  const auto begin = program_->code.operands.begin();
  return step.out_begin != step.out_end ||
         std::any_of(begin + step.in_begin, begin + step.in_end,
                     [](const CompiledOperand& operand) { return operand.kind == Operand::Kind::local; });
}

void Execution::run(const CompiledStep& step, std::uint64_t round, const Direct& direct) {
  const CompiledProgram& code = program_->code;
  const std::size_t total = message_bytes(step, round);
  SendEnd* const send = step.send < 0 ? nullptr : program_->sends[static_cast<std::size_t>(step.send)];
  SlotHeader* const slot = send == nullptr ? nullptr : send->slot;
  std::byte* payload = slot == nullptr ? nullptr : Ring::payload(*slot, total);

  const std::uint32_t ins = step.in_end - step.in_begin;
  // Messages that only pass through are taken as they come.
  const bool whole = call_->rounds == 1 || step.chunks == 1 || !touches_buffers(step);
  const std::int32_t parts = whole ? 1 : step.chunks;
  // Placed in place: what is written over was read just before, so that it is in the cache, and past it would be slow.
  const bool streaming = call_->streaming && !(direct.send == Way::placed && call_->input == call_->output);
  std::size_t done = 0;
  bool placed = false;  // the message is in the output already
  for (std::int32_t part = 0; part < parts; ++part) {
    const std::int32_t chunks = whole ? step.chunks : 1;
    std::size_t bytes = whole ? total : 0;
    for (std::uint32_t i = 0; i < ins; ++i) {
      const CompiledOperand& operand = code.operands[step.in_begin + i];
      if (operand.kind == Operand::Kind::recv) {
        const ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(operand.index)];
        SlotHeader& message = *end.slot;
        placed = placed || (message.size & SlotHeader::kPlaced) != 0;
        program_->inputs[i] = end.lent == nullptr ? ReduceInput{Ring::payload(message, total) + done} : lent_input(end);
      } else {
        const Place at = place(operand.buffer, operand.index + part, chunks, round);
        bytes = at.count * call_->element_bytes;
        program_->inputs[i] = local_input(operand, base(operand.buffer) + at.begin * call_->element_bytes);
      }
    }
    std::uint32_t outs = 0;
    for (std::uint32_t i = step.out_begin; i < step.out_end; ++i) {
      const CompiledDestination& destination = code.destinations[i];
      const Place at = place(destination.buffer, destination.chunk + part, chunks, round);
      bytes = at.count * call_->element_bytes;
      program_->outputs[outs++] = {base(destination.buffer) + at.begin * call_->element_bytes,
                                   streaming && destination.buffer == Buffer::output};
    }
    if (direct.send == Way::placed)
      for (std::size_t reader = 0; reader < send->targets.size(); ++reader) {
        const std::int32_t chunk = code.places[static_cast<std::size_t>(step.place_begin) + reader];
        const Place at = place(Buffer::output, chunk, chunks, round);
        program_->outputs[outs++] = {send->targets[reader] + at.begin * call_->element_bytes, streaming};
      }
    else if (slot != nullptr && direct.send == Way::copied)
      program_->outputs[outs++] = {payload + done, false};
    if (!placed) combine(step, ins, outs, bytes);
    done += bytes;
  }

  for (std::uint32_t i = 0; i < ins; ++i) {
    const CompiledOperand& operand = code.operands[step.in_begin + i];
    if (operand.kind != Operand::Kind::recv) continue;
    ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(operand.index)];
    end.pass();
    end.lent = nullptr;
    if (!end.acknowledged) continue;
    end.ring.released(end.reader).store(end.next, std::memory_order_release);
    end.memory.wake();
  }
  if (slot == nullptr) return;
  slot->size = static_cast<std::uint32_t>(total);
  if (direct.send == Way::placed) slot->size |= SlotHeader::kPlaced;
  if (direct.send == Way::lent) {
    lend(step, round, *slot);
    send->lent_until = send->next + 1;
  }
  slot->fingerprint = call_->fingerprint;
  slot->stamp.store(stamp_of(epoch_, send->next), std::memory_order_release);
  send->pass();
  for (const PeerMemory& reader : send->readers) reader.wake();
}

void Execution::combine(const CompiledStep& step, std::uint32_t ins, std::uint32_t outs, std::size_t bytes) {
  if (bytes == 0 || ins == 0 || outs == 0) return;
  const std::span<const ReduceInput> in(program_->inputs.data(), ins);
  const std::span<const ReduceOutput> out(program_->outputs.data(), outs);
  const int divide = step.postscale ? call_->postdivide : 1;
  const bool scaled =
      divide != 1 || std::any_of(in.begin(), in.end(), [](const ReduceInput& input) { return input.prescale; });
  if (ins > 1 || scaled) {
    call_->reduce({in, out, bytes / call_->element_bytes, divide});
  } else if (outs == 1 && out[0].data == in[0].data) {
    return;  // a copy in place
  } else if (outs == 1 && bytes <= kInlineBytes) {
    std::memcpy(out[0].data, in[0].data, bytes);
  } else {
    call_->copy(out, in[0].data, bytes);
  }
}

std::string Execution::waiting_for() const {
  const CompiledProgram& code = program_->code;
  for (std::size_t lane = 0; lane < code.lanes(); ++lane) {
    const BoundProgram::Cursor& cursor = program_->cursors[lane];
    if (cursor.round >= call_->rounds) continue;
    const CompiledStep& step = code.steps[code.lane_begin[lane] + cursor.step];
    for (std::uint32_t i = step.in_begin; i < step.in_end; ++i) {
      if (code.operands[i].kind != Operand::Kind::recv) continue;
      const ReceiveEnd& end = *program_->receives[static_cast<std::size_t>(code.operands[i].index)];
      const SlotHeader& slot = *end.slot;
      if (slot.stamp.load(std::memory_order_acquire) != stamp_of(epoch_, end.next))
        return "a message from rank " + std::to_string(end.writer) + " (number " + std::to_string(end.next) + ")";
      if ((slot.size & SlotHeader::kLent) != 0 && end.lent == nullptr)
        return "the memory of rank " + std::to_string(end.writer) + " to be mapped";
    }
    if (step.send >= 0) {
      const SendEnd& end = *program_->sends[static_cast<std::size_t>(step.send)];
      const PortEnd& port = code.sends[static_cast<std::size_t>(step.send)];
      for (std::uint32_t reader = 0; end.acknowledged && reader < end.ring.geometry.readers; ++reader)
        if (end.ring.released(reader).load(std::memory_order_acquire) + end.ring.geometry.slots <= end.next)
          return "rank " + std::to_string(port.readers[reader]) + " to take a message (number " +
                 std::to_string(end.next - end.ring.geometry.slots) + ")";
      if (!call_->direct || step.place_begin < 0 || end.reach == Reach::none) continue;
      for (std::uint32_t reader = 0; reader < end.ring.geometry.readers; ++reader)
        if (end.ring.line(reader).announced.load(std::memory_order_acquire) != stamp_of(epoch_, call_->sequence))
          return "rank " + std::to_string(port.readers[reader]) + " to enter the operation";
    }
  }
  for (const SendEnd* end : program_->sends)
    for (std::uint32_t reader = 0; end->acknowledged && reader < end->ring.geometry.readers; ++reader)
      if (end->ring.released(reader).load(std::memory_order_acquire) < end->lent_until)
        return "rank " + std::to_string(end->readers[reader].rank) + " to read what was lent to it";
  return "nothing but its own turn";
}

}  // namespace tutti::runtime

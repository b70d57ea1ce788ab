// The host executor: runs one rank's compiled Program over rings of slots.
//
// An Execution is a set of lane cursors. advance() lets every lane run the Steps that can fire - all messages there,
// all dependencies met, a free slot to send into - and returns; it never blocks. Whoever calls it decides how to wait.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/runtime/compiled.h"
#include "src/runtime/direct.h"
#include "src/runtime/reducer.h"
#include "src/runtime/ring.h"

namespace tutti::runtime {

// This rank's end of a ring it writes. Outlives every program that uses it.
struct SendEnd {
  Ring ring;
  bool acknowledged = true;
  bool carried = false;          // the readers' transports know of it
  std::uint64_t next = 0;        // number of the next message
  SlotHeader* slot = nullptr;    // its slot
  std::uint64_t free_until = 0;  // messages below this number have a free slot, as far as we have looked

  void pass() {
    ++next;
    slot = ring.after(slot);
  }

  // Direct transfers.
  std::vector<PeerMemory> readers;
  Reach reach = Reach::none;        // how the readers get at our memory and we at theirs: the worst of all
  std::uint64_t lent_until = 0;     // messages below this number may be lent
  std::uint64_t targets_of = 0;     // stamp of the operation for which `targets` holds
  std::vector<std::byte*> targets;  // the readers' outputs as seen from here; none: one of them cannot be reached
};

// This rank's end of a ring it reads.
struct ReceiveEnd {
  Ring ring;
  std::uint32_t reader = 0;
  bool acknowledged = true;
  std::int32_t writer = 0;
  std::uint64_t next = 0;        // number of the next message
  SlotHeader* slot = nullptr;    // its slot
  ReadWindow* window = nullptr;  // of a transport that wants to know

  void pass() {
    ++next;
    slot = ring.after(slot);
  }

  PeerMemory memory;                // the writer's
  const std::byte* lent = nullptr;  // the next message, when it is lent
};

// A compiled program with its ends, and the memory an execution needs, so that a repeated call allocates nothing.
struct BoundProgram {
  struct Cursor {
    std::uint64_t round = 0;
    std::uint32_t step = 0;  // from the start of the lane
  };
  CompiledProgram code;
  std::vector<SendEnd*> sends;        // parallel to code.sends
  std::vector<ReceiveEnd*> receives;  // parallel to code.receives; null until the peer has made the ring
  std::size_t unbound = 0;            // how many of `receives` are null
  bool windows = false;               // some of `receives` have a window
  std::vector<Cursor> cursors;        // one per lane
  std::vector<ReduceInput> inputs;    // room for the largest step
  std::vector<ReduceOutput> outputs;
};

// What a call adds to the program. The buffers must live until the execution is done.
struct Call {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  std::size_t count = 0;  // elements per block
  std::size_t element_bytes = 1;
  std::size_t slice = 0;  // elements of a chunk that move in one round
  std::size_t rounds = 1;
  ReduceFn reduce = nullptr;
  CopyFn copy = nullptr;
  bool prescales = false;    // the operator multiplies raw contributions by `factor`
  std::uint64_t factor = 0;  // this rank's own (ReduceInput::factor)
  int postdivide = 1;
  std::uint32_t fingerprint = 0;
  bool streaming = false;  // the outputs are too large to stay in cache

  // Direct transfers: equal on all ranks but for the addresses.
  bool direct = false;         // messages are large enough, and the schedule is safe for it
  std::uint64_t sequence = 0;  // of the operation
  MemoryAddress input_at, output_at;
  std::size_t output_bytes = 0;
  DirectFlags* flags = nullptr;  // this rank's
};

class Execution {
 public:
  // All of program's ends must be bound. `program` and `call` must live until the execution is done.
  void start(BoundProgram& program, const Call& call, std::uint16_t epoch);

  enum class State { blocked, moved, done, mismatch };
  State advance();

  // After mismatch: the rank whose message belongs to another call than ours.
  int mismatched_rank() const { return mismatched_rank_; }
  // "a message from rank 3" or "rank 2 to take a message"; for the report on a stuck operation.
  std::string waiting_for() const;

 private:
  enum class Way { copied, lent, placed };  // in which the step's message travels
  enum class Fire { blocked, fired, mismatch };
  struct Direct {
    // blocked: a reader has not announced its output yet, or memory is not mapped yet; mismatch: of another call
    Fire found = Fire::fired;
    bool touches = false;  // the step reads or writes another rank's memory
    Way send = Way::copied;
  };
  Fire fire(std::size_t lane, const CompiledStep& step);
  bool dependencies_met(const CompiledStep& step, std::uint64_t round) const;
  Fire messages_there(const CompiledStep& step);
  bool slot_free(const CompiledStep& step);
  void run(const CompiledStep& step, std::uint64_t round, const Direct& direct);
  // executor_direct.cc
  void announce();
  Direct look_for_direct(const CompiledStep& step);
  Fire find_targets(SendEnd& end);
  bool touch(const CompiledStep& step, const Direct& direct);
  void lend(const CompiledStep& step, std::uint64_t round, SlotHeader& slot) const;
  bool reclaimed() const;

  void combine(const CompiledStep& step, std::uint32_t ins, std::uint32_t outs, std::size_t bytes);
  std::size_t message_bytes(const CompiledStep& step, std::uint64_t round) const;
  // Whether the operator applies this rank's factor to this operand.
  bool scales(const CompiledOperand& operand) const { return operand.prescale && call_->prescales; }
  ReduceInput local_input(const CompiledOperand& operand, const std::byte* data) const {
    return {data, scales(operand), call_->factor};
  }
  ReduceInput lent_input(const ReceiveEnd& end) const;
  bool touches_buffers(const CompiledStep& step) const;
  struct Place {
    std::size_t begin;  // elements from the start of the buffer
    std::size_t count;
  };
  Place place(schedule::Buffer buffer, std::int32_t chunk, std::int32_t chunks, std::uint64_t round) const;
  std::byte* base(schedule::Buffer buffer) const;

  // executor_exchange.cc
  State exchange();
  void publish();
  void finish_exchange();

  BoundProgram* program_ = nullptr;
  const Call* call_ = nullptr;
  std::uint16_t epoch_ = 1;
  std::size_t lanes_left_ = 0;
  bool exchange_ = false;    // the program is an exchange, in one round
  std::size_t arrived_ = 0;  // messages of it
  int mismatched_rank_ = -1;
};

}  // namespace tutti::runtime

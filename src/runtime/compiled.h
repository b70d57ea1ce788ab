// The compiled form of one rank's Program: what the host executor runs. Flat arrays, indices instead of searches, and
// everything that does not depend on the call worked out in advance.
//
// lower() is a pure function; tests/runtime/lowering_test.cc runs both forms on the same inputs and compares messages
// and bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/runtime/ring.h"
#include "src/schedule/schedule.h"

namespace tutti::runtime {

// One end of a port at this rank.
struct PortEnd {
  PortId id = 0;
  std::int32_t writer = 0;
  std::uint32_t reader = 0;  // receiving end: this rank's number among the readers
  std::vector<std::int32_t> readers;
  RingGeometry geometry;
  bool acknowledged = true;
  std::uint32_t per_round = 0;  // receiving end: messages taken in one round
  bool places = false;          // some message may be placed: the readers announce where their outputs are
};

struct CompiledOperand {
  schedule::Operand::Kind kind;
  schedule::Buffer buffer;
  bool prescale;
  std::int32_t index;  // local: first chunk; recv: into CompiledProgram::receives
};

struct CompiledDestination {
  schedule::Buffer buffer;
  std::int32_t chunk;
};

struct CompiledStep {
  std::uint32_t in_begin, in_end;        // CompiledProgram::operands
  std::uint32_t out_begin, out_end;      // CompiledProgram::destinations
  std::uint32_t after_begin, after_end;  // CompiledProgram::dependencies
  std::int32_t send;                     // into CompiledProgram::sends; -1: none
  std::int32_t chunks;
  bool postscale;
  bool lends;  // the message may be lent: it is a chunk of the input or the output
  std::int32_t
      place_begin;  // CompiledProgram::places, one for each reader of the port; -1: the message cannot be placed
};

struct CompiledDependency {
  std::uint32_t lane;
  std::uint32_t step;  // from the start of its lane
};

// Where the chunks of a buffer lie: `blocks` blocks of `count` elements, `per_block` chunks each.
struct BufferShape {
  std::int32_t blocks = 1;
  std::int32_t per_block = 1;
};

struct CompiledProgram {
  std::vector<CompiledStep> steps;        // lane after lane
  std::vector<std::uint32_t> lane_begin;  // one more than lanes
  std::vector<CompiledOperand> operands;
  std::vector<CompiledDestination> destinations;
  std::vector<CompiledDependency> dependencies;
  std::vector<std::int32_t> places;  // first chunks of readers' outputs
  std::vector<PortEnd> sends;
  std::vector<PortEnd> receives;
  BufferShape shape[3];  // by schedule::Buffer; no scratch: per_block is 0
  // All of it is: publish the input to everybody, then reduce everybody's into the output, with nobody acknowledging.
  bool exchange = false;
  std::uint32_t most_operands = 1;  // of any step
  std::uint32_t most_destinations = 1;

  std::size_t lanes() const { return lane_begin.size() - 1; }
};

// Equal on all ranks. Equal ports of different schedules share a ring, except unacknowledged ones: their proof of free
// slots holds for one schedule run after itself.
inline RingGeometry ring_geometry(const schedule::Port& port, std::uint32_t slots, std::uint32_t slot_bytes) {
  return {static_cast<std::uint32_t>(port.readers.size()), slots, slot_bytes};
}
PortId port_id(const schedule::Schedule& schedule, const schedule::Port& port, const RingGeometry& geometry,
               std::uint32_t generation);

// `slots` and `slot_bytes` are those of the plan, equal on all ranks. `generation` tells rings apart that were made
// before and after the arena was cleared.
CompiledProgram lower(const schedule::Schedule& schedule, int rank, std::uint32_t slots, std::uint32_t slot_bytes,
                      std::uint32_t generation);

}  // namespace tutti::runtime

// A collective algorithm, written down as data. Builders make it, the verifier proves it, the simulator times it, the
// executors run it, the renderers draw it.
//
// A Schedule knows no byte counts. It runs in rounds: in round k every chunk is its k-th slice. A lane runs all its
// Steps for round k, then for round k + 1; lanes advance independently of each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/schedule/step.h"
#include "tutti/types.h"

namespace tutti::schedule {

// The operands are reduced left to right in list order (one operand: copied, none: a Step that only waits), the result
// goes to every destination. At most one destination is a send, and its message goes to all readers of the port.
struct Step {
  std::vector<Operand> in{};
  std::vector<Destination> out{};
  std::int32_t chunks = 1;          // how many consecutive chunks, of every operand and destination alike
  std::vector<Dependency> after{};  // Steps of other lanes of this rank that must have run first, same round
  bool postscale = false;           // derived: completes an output chunk of a reduction, where avg divides
};

// A straight line of Steps of one rank, run in order.
using Lane = std::vector<Step>;

// What one rank does.
struct Program {
  std::vector<Lane> lanes;
};

// One writer, one or more readers. Sends through a port pair with the receives of each reader in order: the n-th
// message is every reader's n-th. A port is used by exactly one lane at the writer and one lane at each reader.
struct Port {
  std::int32_t writer = 0;
  std::vector<std::int32_t> readers;
  std::int32_t channel = 0;  // tells ports of equal writer and readers apart
  // A slot is free again when every reader has released it. Readers of an acknowledged port say so. Readers of an
  // unacknowledged port do not: the schedule itself must prove, with two slots, that whoever sends message n + 2 has
  // heard (by some chain of messages) from every reader since it took message n. The verifier checks the proof.
  bool acknowledged = true;
};

struct Schedule {
  std::string name;  // the algorithm's, as users spell it: "ring", "tree", ...
  Collective collective = Collective::all_reduce;
  std::int32_t ranks = 1;
  std::int32_t root = 0;  // of rooted collectives
  // Input and output are made of blocks of `count` elements, one or as many as there are ranks (collectives.h); each
  // block is cut into C / blocks chunks by src/schedule/partition.h, and so is scratch, if there is any.
  std::int32_t input_blocks = 1;
  std::int32_t output_blocks = 1;
  std::int32_t scratch_blocks = 1;
  std::int32_t input_chunks = 1;  // C of each buffer
  std::int32_t output_chunks = 1;
  std::int32_t scratch_chunks = 0;
  // Messages may be lent and placed (transfer.h), in any mixture, in place and out of place: what the builder claims,
  // the verifier proves.
  bool direct = false;
  std::vector<Port> ports;
  std::vector<Program> programs;  // one per rank
};

// Sets the derived marks (prescale, postscale) from the Steps. Throws Error(invalid_argument) for a malformed schedule.
void derive_scaling(Schedule& schedule);

}  // namespace tutti::schedule

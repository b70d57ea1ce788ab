// What a round of a schedule costs, found by walking the Schedule itself.
//
// The model: a rank is one core that runs its Steps one after another, as their operands arrive. A Step costs
// `step_us`, plus the bytes it reads and writes; its message arrives alpha + beta x bytes after the Step. The first
// round takes the longest chain of Steps and messages (the critical path); as rounds overlap, each further round takes
// the time of the busiest rank or link.
#pragma once

#include "src/planner/world.h"
#include "src/schedule/schedule.h"

namespace tutti::planner {

struct LinkCost {
  double alpha_us = 0;          // from the end of a Step to its message's arrival
  double beta_us_per_byte = 0;  // of the link's own, besides what the cores at its ends spend
};

struct CostTable {
  LinkCost local;                 // ranks of one host
  LinkCost remote;                // ranks of two hosts
  double step_us = 0;             // a core: one Step
  double message_us = 0;          // a core: one message sent to one reader, or taken
  double acknowledge_us = 0;      // a core: telling the writer of an acknowledged port that a slot is free
  double remote_message_us = 0;   // the same through sockets
  double copy_us_per_byte = 0;    // a core: one byte of an operand read or of a destination written in its own cache
  double fetch_us_per_byte = 0;   // a core: one byte of a message taken, from another core's cache
  double remote_us_per_byte = 0;  // a core: one byte sent or taken through sockets
  double reduce_us_per_byte = 0;  // a core: one byte of every operand that is added to the first
  double switch_us = 0;           // one rank gives its core to another, when ranks share cores
};

// The built-in table; each number's source is beside it.
const CostTable& built_in_costs();

// How long a call takes, by cause. Their sum is the prediction.
struct Cost {
  double latency_us = 0;    // per message and Step, whatever their size
  double transfer_us = 0;   // bytes copied and moved
  double reduction_us = 0;  // bytes added
  double total() const { return latency_us + transfer_us + reduction_us; }
};

// The costs of one schedule as lines in the bytes of a chunk's slice.
struct RoundCost {
  struct Line {
    double latency_us = 0;
    double transfer_us_per_byte = 0;
    double reduction_us_per_byte = 0;
    double at(double bytes) const { return latency_us + (transfer_us_per_byte + reduction_us_per_byte) * bytes; }
  };
  Line path;  // the first round
  Line busy;  // each further one

  Cost of(std::size_t rounds, std::size_t slice_bytes) const;
};

// No call whose longest chain has so many messages takes less by this model; to know that needs no Schedule.
double least_us(int messages, const World& world, const CostTable& table = built_in_costs());

RoundCost measure(const schedule::Schedule& schedule, const World& world, const CostTable& table = built_in_costs());

}  // namespace tutti::planner

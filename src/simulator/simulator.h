// How long a Schedule would take on a machine that is given by a few numbers: an event simulation, at any scale.
//
// The model. Every connection (a port and one of its readers) is a resource: it carries one message at a time, for
// beta x bytes, and the message can be taken alpha later. Every rank is a resource for reductions: gamma x bytes for
// every operand that is added to the first. Lanes run as the executor does: all Steps of a round in order, then the
// next round; a Step waits for its operands, for the Steps in `after`, and for a free slot of the port it sends
// through. A slot is free again when every reader's Step has taken the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"
#include "tutti/types.h"

namespace tutti::simulator {

struct Link {
  double alpha_us = 0;
  double beta_us_per_byte = 0;
};

struct Model {
  Link link;                        // between ranks of one host
  Link remote;                      // between ranks of two hosts
  std::vector<int> host_of_rank{};  // empty: all on one host
  double gamma_us_per_byte = 0;     // of reductions
  double step_us = 0;               // of every Step, on its lane
};

struct Event {
  enum class Kind : std::uint8_t { step, message };
  Kind kind = Kind::step;
  std::int32_t rank = 0;  // step: who runs it; message: who takes it
  std::int32_t lane = 0;  // of the Step, or of the Step that sends
  std::int32_t step = 0;
  std::int32_t port = -1;  // of a message
  std::size_t round = 0;
  std::size_t bytes = 0;
  double begin_us = 0;
  double end_us = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

struct ConnectionUse {
  std::int32_t port = 0;
  std::int32_t writer = 0;
  std::int32_t reader = 0;
  std::size_t messages = 0;
  std::size_t bytes = 0;
  double busy_us = 0;
};

struct Result {
  double total_us = 0;
  std::size_t rounds = 0;
  std::size_t messages = 0;
  std::vector<double> rank_finish_us;
  std::vector<ConnectionUse> connections;
  std::vector<Event> trace;  // in order of time; empty unless asked for
};

// Simulates one call of `count` elements per block through `slots` slots of `slot_bytes` per port. Deterministic.
// Throws Error(invalid_argument) that names rank, lane and step when the schedule comes to a standstill.
Result simulate(const schedule::Schedule& schedule, const Model& model, std::size_t count, DataType type,
                std::uint32_t slots, std::uint32_t slot_bytes, bool trace = false);

}  // namespace tutti::simulator

// A Schedule in the making: what every builder needs and no user of a Schedule does.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "src/schedule/builders.h"

namespace tutti::schedule {

// Operands and destinations in words.
inline Operand input(int chunk) { return Operand::local(Buffer::input, chunk); }
inline Operand result(int chunk) { return Operand::local(Buffer::output, chunk); }
inline Operand from(int port) { return Operand::recv(port); }
inline Destination output(int chunk) { return Destination::local(Buffer::output, chunk); }
inline Destination to(int port) { return Destination::send(port); }

class Draft {
 public:
  // `chunks` is the number of chunks of each block. Throws Error(invalid_argument) for a bad Shape.
  Draft(std::string_view name, Collective collective, const Shape& shape, int chunks);

  int ranks() const { return schedule_.ranks; }
  // The rank at a position of Shape::order. Positions wrap around.
  int rank_at(int position) const {
    return order_[static_cast<std::size_t>(position % ranks() + ranks()) % order_.size()];
  }

  // Adds a port; its number.
  int port(int writer, std::vector<int> readers, int channel = 0, bool acknowledged = true);
  int ports() const { return static_cast<int>(schedule_.ports.size()); }
  // Adds a port from each rank to all others, which nobody acknowledges; the number of rank 0's, in rank order.
  int ports_to_all(int channel);
  // Adds a lane to a rank's program; a lane without Steps is left out.
  void lane(int rank, Lane lane) {
    if (!lane.empty()) schedule_.programs[static_cast<std::size_t>(rank)].lanes.push_back(std::move(lane));
  }
  Schedule& schedule() { return schedule_; }

  // Sets the derived marks and hands the Schedule over.
  Schedule finish() &&;

 private:
  Schedule schedule_;
  std::vector<int> order_;
};

// The ports of one lane's ring: over Shape::order in even lanes, over its reverse in odd ones.
class RingLane {
 public:
  RingLane(Draft& draft, int lane);

  int rank_at(int position) const { return draft_.rank_at(backwards_ ? -position : position); }
  int out_port(int position) const { return first_port_ + position; }  // to position + 1
  int in_port(int position) const { return first_port_ + (position + draft_.ranks() - 1) % draft_.ranks(); }

 private:
  const Draft& draft_;
  const bool backwards_;
  const int first_port_;
};

// The ports of one lane from each rank to each other one, which the readers acknowledge.
class PairPorts {
 public:
  PairPorts(Draft& draft, int channel) : ranks_(draft.ranks()), first_(draft.ports()) {
    for (int writer = 0; writer < ranks_; ++writer)
      for (int reader = 0; reader < ranks_; ++reader)
        if (reader != writer) draft.port(writer, {reader}, channel);
  }

  int operator()(int writer, int reader) const {
    return first_ + writer * (ranks_ - 1) + reader - (reader > writer ? 1 : 0);
  }

 private:
  const int ranks_, first_;
};

// All ranks but one, in rank order: the readers of a port to everybody.
std::vector<int> all_but(int ranks, int rank);

// The Schedule of a single rank: its output is a copy of its input.
Schedule build_copy(std::string_view name, Collective collective, const Shape& shape);

}  // namespace tutti::schedule

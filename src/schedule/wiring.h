// The graph behind a Schedule: all Steps of one round in one flat numbering, and which Step's message each receive
// takes. The n-th receive from a port takes the n-th message sent through it, so one look at the lanes tells; nothing
// is run.
//
// Any Schedule may be wired, also a faulty one: what does not fit together shows up as -1.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

struct StepPlace {
  int rank = 0;
  int lane = 0;
  int step = 0;
};

class Wiring {
 public:
  // Keeps a reference to the Schedule, whose indices (ranks, lanes, ports) must be in range.
  explicit Wiring(const Schedule& schedule);

  int size() const { return static_cast<int>(steps_.size()); }
  const Step& step(int id) const { return *steps_[static_cast<std::size_t>(id)]; }
  const StepPlace& place(int id) const { return places_[static_cast<std::size_t>(id)]; }
  int id(int rank, int lane, int step) const {
    return lane_begin_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)] + step;
  }

  // For every operand the Step whose message it takes; -1 for local operands, and where there is no such message.
  std::span<const int> senders(int id) const {
    const auto i = static_cast<std::size_t>(id);
    return {senders_.data() + sender_begin_[i], senders_.data() + sender_begin_[i + 1]};
  }
  // The port a Step sends through, or -1; and which message of the port in one round its message is.
  int sends_through(int id) const { return port_[static_cast<std::size_t>(id)]; }
  int message_number(int id) const { return number_[static_cast<std::size_t>(id)]; }

  // The Steps that send through a port, in the order of its messages.
  std::span<const int> messages(int port) const {
    const auto i = static_cast<std::size_t>(port);
    return {messages_.data() + message_begin_[i], messages_.data() + message_begin_[i + 1]};
  }

  // The Steps that must come before `id` in the same round: previous of its lane, dependencies, senders.
  template <class Visit>
  void for_each_before(int id, Visit visit) const {
    const StepPlace& at = place(id);
    if (at.step > 0) visit(id - 1);
    for (const Dependency& dependency : step(id).after) visit(this->id(at.rank, dependency.lane, dependency.step));
    for (int sender : senders(id))
      if (sender >= 0) visit(sender);
  }

  // All Steps in an order in which one round can run when slots never run out; shorter than size() if Steps wait for
  // each other in a circle.
  std::vector<int> firing_order() const;

 private:
  void number_steps(const Schedule& schedule);
  void list_messages(std::size_t ports);
  void find_senders(std::size_t ports);

  std::vector<const Step*> steps_;
  std::vector<StepPlace> places_;
  std::vector<std::vector<int>> lane_begin_;  // [rank][lane]
  std::vector<int> port_, number_;
  std::vector<std::size_t> message_begin_, sender_begin_;  // of each port in messages_, of each Step in senders_
  std::vector<int> messages_, senders_;
};

}  // namespace tutti::schedule

#include "src/schedule/wiring.h"

#include <numeric>

namespace tutti::schedule {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Wiring::Wiring(const Schedule& schedule) {
  std::size_t steps = 0, operands = 0;
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes) {
      steps += lane.size();
      for (const Step& step : lane) operands += step.in.size();
    }
  steps_.reserve(steps);
  places_.reserve(steps);
  port_.reserve(steps);
  number_.reserve(steps);
  sender_begin_.reserve(steps + 1);
  senders_.reserve(operands);
  number_steps(schedule);
  list_messages(schedule.ports.size());
  find_senders(schedule.ports.size());
}

void Wiring::number_steps(const Schedule& schedule) {
  std::vector<int> sent(schedule.ports.size());
  for (int r = 0; r < static_cast<int>(schedule.programs.size()); ++r) {
    const Program& program = schedule.programs[at(r)];
    lane_begin_.emplace_back();
    for (int l = 0; l < static_cast<int>(program.lanes.size()); ++l) {
      lane_begin_.back().push_back(size());
      const Lane& lane = program.lanes[at(l)];
      for (int s = 0; s < static_cast<int>(lane.size()); ++s) {
        int port = -1;
        for (const Destination& out : lane[at(s)].out)
          if (out.kind == Destination::Kind::send) port = out.index;
        number_.push_back(port < 0 ? -1 : sent[at(port)]++);
        port_.push_back(port);
        steps_.push_back(&lane[at(s)]);
        places_.push_back({r, l, s});
      }
    }
  }
}

void Wiring::list_messages(std::size_t ports) {
  message_begin_.assign(ports + 1, 0);
  for (const int port : port_)
    if (port >= 0) ++message_begin_[at(port) + 1];
  std::partial_sum(message_begin_.begin(), message_begin_.end(), message_begin_.begin());
  messages_.resize(message_begin_.back());
  for (int id = 0; id < size(); ++id)
    if (const int port = port_[at(id)]; port >= 0) messages_[message_begin_[at(port)] + at(number_[at(id)])] = id;
}

// The n-th receive of a rank from a port takes the port's n-th message.
void Wiring::find_senders(std::size_t ports) {
  struct Taken {
    int rank = -1;  // of whose receives `count` speaks: Steps come rank by rank
    std::size_t count = 0;
  };
  std::vector<Taken> taken(ports);
  for (int id = 0; id < size(); ++id) {
    sender_begin_.push_back(senders_.size());
    for (const Operand& in : step(id).in) {
      int sender = -1;
      if (in.kind == Operand::Kind::recv) {
        Taken& port = taken[at(in.index)];
        if (port.rank != place(id).rank) port = {place(id).rank, 0};
        const std::size_t n = port.count++;
        if (n < messages(in.index).size()) sender = messages(in.index)[n];
      }
      senders_.push_back(sender);
    }
  }
  sender_begin_.push_back(senders_.size());
}

std::vector<int> Wiring::firing_order() const {
  std::vector<int> waiting(at(size()));
  std::vector<std::size_t> next_begin(at(size()) + 1);  // the Steps after Step i are next[next_begin[i]] and following
  for (int i = 0; i < size(); ++i)
    for_each_before(i, [&](int before) {
      ++next_begin[at(before) + 1];
      ++waiting[at(i)];
    });
  std::partial_sum(next_begin.begin(), next_begin.end(), next_begin.begin());
  std::vector<int> next(next_begin.back());
  std::vector<std::size_t> end(next_begin.begin(), next_begin.end() - 1);
  for (int i = 0; i < size(); ++i) for_each_before(i, [&](int before) { next[end[at(before)]++] = i; });
  std::vector<int> order;
  order.reserve(at(size()));
  for (int i = 0; i < size(); ++i)
    if (waiting[at(i)] == 0) order.push_back(i);
  for (std::size_t done = 0; done < order.size(); ++done)
    for (std::size_t k = next_begin[at(order[done])]; k < next_begin[at(order[done]) + 1]; ++k)
      if (--waiting[at(next[k])] == 0) order.push_back(next[k]);
  return order;
}

}  // namespace tutti::schedule

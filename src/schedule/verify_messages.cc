// The verifier's look at messages: whether the writer and the readers of each port agree on their number and sizes, and
// use it from one lane each. One pass over the Steps tells which ports are at fault; the first of them is then looked
// at again, for the words.
#include <algorithm>
#include <span>

#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

using Maybe = std::optional<Fault>;
using std::to_string;

// What one pass knows of a port. Steps come rank by rank, so one rank's end is enough.
struct PortUse {
  int reader = -1;
  int lane = 0;            // of the reader
  std::size_t takes = 0;   // of the reader
  std::size_t served = 0;  // readers that have taken as many messages as there are
  bool agrees = true;      // so far
};

bool sent_by_one_lane(const Wiring& wiring, int port) {
  const std::span<const int> messages = wiring.messages(port);
  return !messages.empty() && std::all_of(messages.begin(), messages.end(), [&](int id) {
    return wiring.place(id).lane == wiring.place(messages.front()).lane;
  });
}

void note_takes(const Wiring& wiring, int id, std::vector<PortUse>& uses) {
  const Step& step = wiring.step(id);
  const StepPlace& place = wiring.place(id);
  for (std::size_t k = 0; k < step.in.size(); ++k) {
    if (step.in[k].kind != Operand::Kind::recv) continue;
    PortUse& use = uses[at(step.in[k].index)];
    if (use.reader != place.rank) {
      use.reader = place.rank;
      use.lane = place.lane;
      use.takes = 0;
    }
    const int sender = wiring.senders(id)[k];
    use.agrees = use.agrees && use.lane == place.lane && sender >= 0 && wiring.step(sender).chunks == step.chunks;
    if (++use.takes == wiring.messages(step.in[k].index).size()) ++use.served;
  }
}

// ---- words for a port at fault --------------------------------------------------------------------------------------

Maybe check_one_lane(const Wiring& wiring, int port, std::span<const int> uses, const char* verb) {
  for (const int id : uses)
    if (wiring.place(id).lane != wiring.place(uses.front()).lane)
      return step_fault(wiring.place(id), std::string(verb) + " port " + to_string(port) + ", which lane " +
                                              to_string(wiring.place(uses.front()).lane) + " of the rank uses already");
  return {};
}

std::vector<int> takes_of(const Wiring& wiring, int port, int reader) {
  std::vector<int> takes;
  for (int id = 0; id < wiring.size(); ++id)
    if (wiring.place(id).rank == reader)
      for (const Operand& in : wiring.step(id).in)
        if (in.kind == Operand::Kind::recv && in.index == port) takes.push_back(id);
  return takes;
}

Maybe check_reader(const Wiring& wiring, const Port& port, int p, int reader) {
  const std::span<const int> sends = wiring.messages(p);
  const std::vector<int> takes = takes_of(wiring, p, reader);
  if (Maybe fault = check_one_lane(wiring, p, takes, "receives from")) return fault;
  const std::size_t both = std::min(sends.size(), takes.size());
  for (std::size_t i = 0; i < both; ++i)
    if (const int sent = wiring.step(sends[i]).chunks, taken = wiring.step(takes[i]).chunks; sent != taken)
      return step_fault(wiring.place(takes[i]), "takes a message of " + to_string(taken) + " chunks from port " +
                                                    to_string(p) + ", but " + text_of(wiring.place(sends[i])) +
                                                    " sends " + to_string(sent));
  if (sends.size() == takes.size()) return {};
  const std::string counts = "rank " + to_string(port.writer) + " sends " + to_string(sends.size()) +
                             " messages a round and rank " + to_string(reader) + " takes " + to_string(takes.size());
  if (sends.size() > both)
    return step_fault(wiring.place(sends[both]), "nobody takes this message of port " + to_string(p) + ": " + counts);
  return step_fault(wiring.place(takes[both]), "there is no message to take from port " + to_string(p) + ": " + counts);
}

Maybe check_port(const Wiring& wiring, const Port& port, int p) {
  if (wiring.messages(p).empty()) return port_fault(p, "of rank " + to_string(port.writer) + " is never sent through");
  if (Maybe fault = check_one_lane(wiring, p, wiring.messages(p), "sends through")) return fault;
  for (const int reader : port.readers)
    if (Maybe fault = check_reader(wiring, port, p, reader)) return fault;
  return {};
}

}  // namespace

std::optional<Fault> check_messages(const Schedule& schedule, const Wiring& wiring) {
  std::vector<PortUse> uses(schedule.ports.size());
  for (int id = 0; id < wiring.size(); ++id) note_takes(wiring, id, uses);
  for (int p = 0; p < static_cast<int>(schedule.ports.size()); ++p) {
    const Port& port = schedule.ports[at(p)];
    const PortUse& use = uses[at(p)];
    if (use.agrees && use.served == port.readers.size() && sent_by_one_lane(wiring, p)) continue;
    if (Maybe fault = check_port(wiring, port, p)) return fault;
  }
  return {};
}

}  // namespace tutti::schedule

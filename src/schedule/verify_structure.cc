// The verifier's first part: everything that can be said by looking at one Step or one port at a time.
#include <algorithm>
#include <map>
#include <tuple>

#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

using Maybe = std::optional<Fault>;
using std::to_string;

Fault schedule_fault(const std::string& what) { return {FaultKind::structure, "The schedule " + what + "."}; }
Fault port_fault(int port, const std::string& what) {
  return {FaultKind::structure, "Port " + to_string(port) + " " + what + "."};
}
Fault step_fault(const StepPlace& place, const std::string& what) {
  return {FaultKind::structure, "At " + text_of(place) + ": " + what + ".", place};
}

int chunks_of(const Schedule& schedule, Buffer buffer) {
  return buffer == Buffer::input    ? schedule.input_chunks
         : buffer == Buffer::output ? schedule.output_chunks
                                    : schedule.scratch_chunks;
}

Maybe check_frame(const Schedule& s) {
  if (s.ranks < 1) return schedule_fault("has " + to_string(s.ranks) + " ranks; there must be at least 1");
  if (s.programs.size() != at(s.ranks))
    return schedule_fault("has " + to_string(s.programs.size()) + " programs for " + to_string(s.ranks) + " ranks");
  if (s.root < 0 || s.root >= s.ranks)
    return schedule_fault("names root " + to_string(s.root) + "; valid are 0 to " + to_string(s.ranks - 1));
  const int output_blocks = s.collective == Collective::all_gather ? s.ranks : 1;
  if (s.input_blocks != 1 || s.output_blocks != output_blocks)
    return schedule_fault("has " + to_string(s.input_blocks) + " input and " + to_string(s.output_blocks) +
                          " output blocks; this collective has 1 and " + to_string(output_blocks));
  if (s.input_chunks < 1 || s.output_chunks != static_cast<std::int64_t>(s.input_chunks) * output_blocks)
    return schedule_fault("cuts a block of the input into " + to_string(s.input_chunks) +
                          " chunks and the output into " + to_string(s.output_chunks) +
                          "; every block must have the same number, at least 1");
  if (s.scratch_chunks != 0 && s.scratch_chunks != s.input_chunks)
    return schedule_fault("cuts scratch into " + to_string(s.scratch_chunks) + " chunks; valid are none or " +
                          to_string(s.input_chunks) + ", as many as a block has");
  return {};
}

Maybe check_ports(const Schedule& s) {
  std::map<std::tuple<int, std::vector<std::int32_t>, int>, int> known;
  for (int p = 0; p < static_cast<int>(s.ports.size()); ++p) {
    const Port& port = s.ports[at(p)];
    if (port.writer < 0 || port.writer >= s.ranks)
      return port_fault(
          p, "has rank " + to_string(port.writer) + " as its writer; valid are 0 to " + to_string(s.ranks - 1));
    if (port.readers.empty()) return port_fault(p, "of rank " + to_string(port.writer) + " has no readers");
    std::vector<std::int32_t> sorted = port.readers;
    std::sort(sorted.begin(), sorted.end());
    for (int reader : sorted) {
      if (reader < 0 || reader >= s.ranks)
        return port_fault(p,
                          "has rank " + to_string(reader) + " as a reader; valid are 0 to " + to_string(s.ranks - 1));
      if (reader == port.writer)
        return port_fault(p, "of rank " + to_string(reader) + " has its own writer as a reader");
    }
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      return port_fault(p, "has rank " + to_string(*twice) + " as a reader twice");
    const auto [same, is_new] = known.insert({{port.writer, sorted, port.channel}, p});
    if (!is_new)
      return port_fault(p, "of rank " + to_string(port.writer) + " has the writer, readers and channel of port " +
                               to_string(same->second));
  }
  return {};
}

Maybe check_range(const Schedule& s, const StepPlace& place, Buffer buffer, int first, int chunks) {
  if (buffer > Buffer::scratch) return step_fault(place, "there is no buffer " + to_string(static_cast<int>(buffer)));
  const std::int64_t end = static_cast<std::int64_t>(first) + chunks;
  if (first < 0 || end > chunks_of(s, buffer))
    return step_fault(place, text_of(buffer, first < 0 ? first : static_cast<int>(end - 1)) +
                                 " does not exist; there are " + to_string(chunks_of(s, buffer)));
  return {};
}

// As many as there are readers: `rank` is none.
std::size_t reader_number(const Port& port, int rank) {
  return static_cast<std::size_t>(std::find(port.readers.begin(), port.readers.end(), rank) - port.readers.begin());
}

Maybe check_operands(const Schedule& s, const StepPlace& place, const Step& step) {
  for (std::size_t k = 0; k < step.in.size(); ++k) {
    const Operand& in = step.in[k];
    if (in.kind == Operand::Kind::local) {
      if (Maybe fault = check_range(s, place, in.buffer, in.index, step.chunks)) return fault;
      continue;
    }
    if (in.index < 0 || at(in.index) >= s.ports.size())
      return step_fault(place, "receives from port " + to_string(in.index) + ", which does not exist");
    const Port& port = s.ports[at(in.index)];
    if (reader_number(port, place.rank) == port.readers.size())
      return step_fault(place, "receives from port " + to_string(in.index) + ", of which the rank is no reader");
    for (std::size_t other = 0; other < k; ++other)
      if (step.in[other].kind == Operand::Kind::recv && step.in[other].index == in.index)
        return step_fault(place, "receives from port " + to_string(in.index) + " twice in one step");
  }
  return {};
}

// Ranges of one Step that overlap must be the same range: only then does it work element by element.
bool shifted(int first, int second, int chunks) { return first != second && std::abs(first - second) < chunks; }

Maybe check_destinations(const Schedule& s, const StepPlace& place, const Step& step) {
  if (step.in.empty() && !step.out.empty()) return step_fault(place, "has a destination, but no operand to put there");
  int sends = 0;
  for (std::size_t k = 0; k < step.out.size(); ++k) {
    const Destination& out = step.out[k];
    if (out.kind == Destination::Kind::send) {
      if (out.index < 0 || at(out.index) >= s.ports.size())
        return step_fault(place, "sends through port " + to_string(out.index) + ", which does not exist");
      if (s.ports[at(out.index)].writer != place.rank)
        return step_fault(place, "sends through port " + to_string(out.index) + ", whose writer is rank " +
                                     to_string(s.ports[at(out.index)].writer));
      if (++sends > 1) return step_fault(place, "sends through more than one port");
      continue;
    }
    if (Maybe fault = check_range(s, place, out.buffer, out.index, step.chunks)) return fault;
    if (out.buffer == Buffer::input)
      return step_fault(place, "writes " + text_of(out.buffer, out.index) + ", but inputs are only read");
    for (std::size_t other = 0; other < k; ++other)
      if (step.out[other].kind == Destination::Kind::local && step.out[other].buffer == out.buffer &&
          std::abs(step.out[other].index - out.index) < step.chunks)
        return step_fault(place, "writes " + text_of(out.buffer, out.index) + " twice in one step");
    for (const Operand& in : step.in)
      if (in.kind == Operand::Kind::local && in.buffer == out.buffer && shifted(in.index, out.index, step.chunks))
        return step_fault(place, "reads " + text_of(in.buffer, in.index) + " and writes " +
                                     text_of(out.buffer, out.index) + " onward, which overlap in part");
  }
  return {};
}

Maybe check_dependencies(const Schedule& s, const StepPlace& place, const Step& step) {
  const auto& lanes = s.programs[at(place.rank)].lanes;
  for (const Dependency& d : step.after) {
    const auto refuse = [&](const char* why) {
      return step_fault(place, "waits for lane " + to_string(d.lane) + ", step " + to_string(d.step) + why);
    };
    if (d.lane < 0 || at(d.lane) >= lanes.size() || d.step < 0 || at(d.step) >= lanes[at(d.lane)].size())
      return refuse(", which does not exist");
    if (d.lane == place.lane) return refuse(d.step == place.step ? ", itself" : " of its own lane");
  }
  return {};
}

// Who uses the ends of each port, and with which messages.
struct Ends {
  std::vector<StepPlace> sends;
  std::vector<std::vector<StepPlace>> receives;  // parallel to Port::readers
};

Maybe check_one_lane(int port, const std::vector<StepPlace>& uses, const char* verb) {
  for (const StepPlace& use : uses)
    if (use.lane != uses.front().lane)
      return step_fault(use, std::string(verb) + " port " + to_string(port) + ", which lane " +
                                 to_string(uses.front().lane) + " of the rank uses already");
  return {};
}

int message_chunks(const Schedule& s, const StepPlace& place) {
  return s.programs[at(place.rank)].lanes[at(place.lane)][at(place.step)].chunks;
}

Maybe check_ends(const Schedule& s, int p, const Ends& ends) {
  const Port& port = s.ports[at(p)];
  if (ends.sends.empty()) return port_fault(p, "of rank " + to_string(port.writer) + " is never sent through");
  if (Maybe fault = check_one_lane(p, ends.sends, "sends through")) return fault;
  for (std::size_t reader = 0; reader < port.readers.size(); ++reader) {
    const std::vector<StepPlace>& takes = ends.receives[reader];
    if (Maybe fault = check_one_lane(p, takes, "receives from")) return fault;
    const std::size_t both = std::min(ends.sends.size(), takes.size());
    for (std::size_t i = 0; i < both; ++i)
      if (message_chunks(s, ends.sends[i]) != message_chunks(s, takes[i]))
        return step_fault(takes[i], "takes a message of " + to_string(message_chunks(s, takes[i])) +
                                        " chunks from port " + to_string(p) + ", but " + text_of(ends.sends[i]) +
                                        " sends " + to_string(message_chunks(s, ends.sends[i])));
    if (ends.sends.size() == takes.size()) continue;
    const std::string counts = "rank " + to_string(port.writer) + " sends " + to_string(ends.sends.size()) +
                               " messages a round and rank " + to_string(port.readers[reader]) + " takes " +
                               to_string(takes.size());
    if (ends.sends.size() > both)
      return step_fault(ends.sends[both], "nobody takes this message of port " + to_string(p) + ": " + counts);
    return step_fault(takes[both], "there is no message to take from port " + to_string(p) + ": " + counts);
  }
  return {};
}

Maybe check_step(const Schedule& s, const StepPlace& place, const Step& step) {
  if (step.chunks < 1) return step_fault(place, "handles " + to_string(step.chunks) + " chunks; it must be at least 1");
  if (Maybe fault = check_operands(s, place, step)) return fault;
  if (Maybe fault = check_destinations(s, place, step)) return fault;
  return check_dependencies(s, place, step);
}

}  // namespace

std::optional<Fault> check_structure(const Schedule& schedule) {
  if (Maybe fault = check_frame(schedule)) return fault;
  if (Maybe fault = check_ports(schedule)) return fault;
  std::vector<Ends> ends;
  for (const Port& port : schedule.ports)
    ends.push_back({{}, std::vector<std::vector<StepPlace>>(port.readers.size())});
  for (int r = 0; r < schedule.ranks; ++r)
    for (int l = 0; l < static_cast<int>(schedule.programs[at(r)].lanes.size()); ++l) {
      const Lane& lane = schedule.programs[at(r)].lanes[at(l)];
      for (int i = 0; i < static_cast<int>(lane.size()); ++i) {
        const StepPlace place{r, l, i};
        if (Maybe fault = check_step(schedule, place, lane[at(i)])) return fault;
        for (const Operand& in : lane[at(i)].in)
          if (in.kind == Operand::Kind::recv)
            ends[at(in.index)].receives[reader_number(schedule.ports[at(in.index)], r)].push_back(place);
        for (const Destination& out : lane[at(i)].out)
          if (out.kind == Destination::Kind::send) ends[at(out.index)].sends.push_back(place);
      }
    }
  for (int p = 0; p < static_cast<int>(schedule.ports.size()); ++p)
    if (Maybe fault = check_ends(schedule, p, ends[at(p)])) return fault;
  return {};
}

}  // namespace tutti::schedule

// The verifier's first part: everything that can be said by looking at one Step or one port at a time.
#include <algorithm>
#include <deque>
#include <tuple>
#include <utility>

#include "src/schedule/collectives.h"
#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

using Maybe = std::optional<Fault>;
using std::to_string;

Fault schedule_fault(const std::string& what) { return {FaultKind::structure, "The schedule " + what + "."}; }

// Of the rank's buffer; 0 where the collective gives it none.
int chunks_of(const Schedule& s, Buffer buffer, int rank) {
  if (buffer == Buffer::input) return has_input(s.collective, s.root, rank) ? s.input_chunks : 0;
  if (buffer == Buffer::output) return has_output(s.collective, s.root, rank) ? s.output_chunks : 0;
  return s.scratch_chunks;
}

Maybe check_frame(const Schedule& s) {
  if (s.ranks < 1) return schedule_fault("has " + to_string(s.ranks) + " ranks; there must be at least 1");
  if (s.programs.size() != at(s.ranks))
    return schedule_fault("has " + to_string(s.programs.size()) + " programs for " + to_string(s.ranks) + " ranks");
  if (s.root < 0 || s.root >= s.ranks)
    return schedule_fault("names root " + to_string(s.root) + "; valid are 0 to " + to_string(s.ranks - 1));
  const int ins = input_blocks(s.collective, s.ranks), outs = output_blocks(s.collective, s.ranks);
  if (s.input_blocks != ins || s.output_blocks != outs)
    return schedule_fault("has " + to_string(s.input_blocks) + " input and " + to_string(s.output_blocks) +
                          " output blocks; this collective has " + to_string(ins) + " and " + to_string(outs));
  const std::int32_t per_block = s.input_chunks / ins;
  if (per_block < 1 || s.input_chunks != static_cast<std::int64_t>(per_block) * ins ||
      s.output_chunks != static_cast<std::int64_t>(per_block) * outs)
    return schedule_fault("cuts the input into " + to_string(s.input_chunks) + " chunks and the output into " +
                          to_string(s.output_chunks) + "; every block must have the same number, at least 1");
  if (s.scratch_blocks < 1 || s.scratch_blocks > s.ranks)
    return schedule_fault("has " + to_string(s.scratch_blocks) + " scratch blocks; valid are 1 to " +
                          to_string(s.ranks) + ", as many as there are ranks");
  if (s.scratch_chunks != 0 && s.scratch_chunks != static_cast<std::int64_t>(per_block) * s.scratch_blocks)
    return schedule_fault("cuts scratch into " + to_string(s.scratch_chunks) + " chunks; valid are none or " +
                          to_string(per_block) + " for each of its " + to_string(s.scratch_blocks) +
                          (s.scratch_blocks == 1 ? " block" : " blocks"));
  return {};
}

Maybe check_readers(const Schedule& s, int p, std::vector<int>& read_by) {
  const Port& port = s.ports[at(p)];
  if (port.writer < 0 || port.writer >= s.ranks)
    return port_fault(
        p, "has rank " + to_string(port.writer) + " as its writer; valid are 0 to " + to_string(s.ranks - 1));
  if (port.readers.empty()) return port_fault(p, "of rank " + to_string(port.writer) + " has no readers");
  for (int reader : port.readers) {
    if (reader < 0 || reader >= s.ranks)
      return port_fault(p, "has rank " + to_string(reader) + " as a reader; valid are 0 to " + to_string(s.ranks - 1));
    if (reader == port.writer) return port_fault(p, "of rank " + to_string(reader) + " has its own writer as a reader");
    if (std::exchange(read_by[at(reader)], p) == p)
      return port_fault(p, "has rank " + to_string(reader) + " as a reader twice");
  }
  return {};
}

// No two ports of equal writer, channel and set of readers. Builders make them in ascending order, which shows that
// without a search.
Maybe check_ports_differ(const Schedule& s) {
  struct Key {
    int port;
    const std::vector<std::int32_t>* readers;
  };
  std::vector<Key> keys;
  std::deque<std::vector<std::int32_t>> sorted;  // where a port's readers are not
  for (int p = 0; p < static_cast<int>(s.ports.size()); ++p) {
    const std::vector<std::int32_t>& readers = s.ports[at(p)].readers;
    keys.push_back({p, &readers});
    if (std::is_sorted(readers.begin(), readers.end())) continue;
    std::vector<std::int32_t>& copy = sorted.emplace_back(readers);
    std::sort(copy.begin(), copy.end());
    keys.back().readers = &copy;
  }
  const auto in_order = [&s](const Key& a, const Key& b) {
    const Port &first = s.ports[at(a.port)], &second = s.ports[at(b.port)];
    return std::tie(first.writer, first.channel, *a.readers) < std::tie(second.writer, second.channel, *b.readers);
  };
  const auto not_ascending = [&](const Key& a, const Key& b) { return !in_order(a, b); };
  if (std::adjacent_find(keys.begin(), keys.end(), not_ascending) == keys.end()) return {};
  std::stable_sort(keys.begin(), keys.end(), in_order);
  const auto twins = std::adjacent_find(keys.begin(), keys.end(), not_ascending);
  if (twins == keys.end()) return {};
  return port_fault(twins[1].port, "of rank " + to_string(s.ports[at(twins->port)].writer) +
                                       " has the writer, readers and channel of port " + to_string(twins->port));
}

Maybe check_ports(const Schedule& s) {
  std::vector<int> read_by(at(s.ranks), -1);  // the last port that each rank was found to read
  for (int p = 0; p < static_cast<int>(s.ports.size()); ++p)
    if (Maybe fault = check_readers(s, p, read_by)) return fault;
  return check_ports_differ(s);
}

Maybe check_range(const Schedule& s, const StepPlace& place, Buffer buffer, int first, int chunks) {
  if (buffer > Buffer::scratch) return step_fault(place, "there is no buffer " + to_string(static_cast<int>(buffer)));
  const std::int64_t end = static_cast<std::int64_t>(first) + chunks;
  const int chunks_there = chunks_of(s, buffer, place.rank);
  if (first < 0 || end > chunks_there)
    return step_fault(place, text_of(buffer, first < 0 ? first : static_cast<int>(end - 1)) +
                                 " does not exist; there are " + to_string(chunks_there));
  return {};
}

// Of the rank whose Steps are looked at.
struct PortMarks {
  std::vector<int> reader;  // by port: the last rank that was found to read it
  std::vector<int> taker;   // by port: the last Step of all that was found to take a message of it
};

Maybe check_operands(const Schedule& s, const StepPlace& place, int id, const Step& step, PortMarks& marks) {
  for (const Operand& in : step.in) {
    if (in.kind == Operand::Kind::local) {
      if (Maybe fault = check_range(s, place, in.buffer, in.index, step.chunks)) return fault;
      continue;
    }
    if (in.index < 0 || at(in.index) >= s.ports.size())
      return step_fault(place, "receives from port " + to_string(in.index) + ", which does not exist");
    if (marks.reader[at(in.index)] != place.rank)
      return step_fault(place, "receives from port " + to_string(in.index) + ", of which the rank is no reader");
    if (std::exchange(marks.taker[at(in.index)], id) == id)
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

Maybe check_step(const Schedule& s, const StepPlace& place, int id, const Step& step, PortMarks& marks) {
  if (step.chunks < 1) return step_fault(place, "handles " + to_string(step.chunks) + " chunks; it must be at least 1");
  if (Maybe fault = check_operands(s, place, id, step, marks)) return fault;
  if (Maybe fault = check_destinations(s, place, step)) return fault;
  return check_dependencies(s, place, step);
}

Maybe check_steps(const Schedule& s) {
  std::vector<std::vector<int>> read_by(at(s.ranks));
  for (int p = 0; p < static_cast<int>(s.ports.size()); ++p)
    for (int reader : s.ports[at(p)].readers) read_by[at(reader)].push_back(p);
  PortMarks marks{std::vector<int>(s.ports.size(), -1), std::vector<int>(s.ports.size(), -1)};
  int id = 0;
  for (int r = 0; r < s.ranks; ++r) {
    for (int port : read_by[at(r)]) marks.reader[at(port)] = r;
    const auto& lanes = s.programs[at(r)].lanes;
    for (int l = 0; l < static_cast<int>(lanes.size()); ++l)
      for (int i = 0; i < static_cast<int>(lanes[at(l)].size()); ++i, ++id)
        if (Maybe fault = check_step(s, {r, l, i}, id, lanes[at(l)][at(i)], marks)) return fault;
  }
  return {};
}

}  // namespace

std::optional<Fault> check_structure(const Schedule& schedule) {
  if (Maybe fault = check_frame(schedule)) return fault;
  if (Maybe fault = check_ports(schedule)) return fault;
  return check_steps(schedule);
}

}  // namespace tutti::schedule

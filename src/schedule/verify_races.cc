// The verifier's part on memory: no two accesses to the same chunk, one of them a write, without an order between them.
//
// Different rounds touch different slices of input and output, so those conflict within a round only; scratch is reused
// by every round. Where a message may be lent, the receiving Step reads the sender's memory; where it may be placed,
// the sending Step writes the receiver's. These accesses are added to those of copying, since any subset of the
// messages may travel so. In place, some input chunks are output chunks (collectives.h), and every read of an input
// must come before any write there: a later read would find something else. A collective that has no in-place form is
// as safe in place as out of place.
#include <algorithm>

#include "src/schedule/collectives.h"
#include "src/schedule/verify_parts.h"

namespace tutti::schedule {
namespace {

struct Access {
  int step = 0;
  int offset = 0;  // which of the Step's chunks; accesses of one Step at equal offsets go element by element
  bool writes = false;
  bool input = false;  // reads the input
};

// The accesses of one rank's memory by location: the output's chunks, then the scratch's, then the input's.
class Memory {
 public:
  Memory(const Schedule& schedule, bool in_place) : schedule_(schedule), in_place_(in_place) {
    const int locations = schedule.output_chunks + schedule.scratch_chunks + schedule.input_chunks;
    accesses_.assign(at(schedule.ranks), std::vector<std::vector<Access>>(at(locations)));
  }

  int location(int rank, Buffer buffer, int chunk) const {
    if (buffer == Buffer::output) return chunk;
    if (buffer == Buffer::scratch) return schedule_.output_chunks + chunk;
    const int per_block = schedule_.input_chunks / schedule_.input_blocks;
    const int same = in_place_ ? in_place_chunk(schedule_.collective, rank, per_block, chunk) : -1;
    return same >= 0 ? same : schedule_.output_chunks + schedule_.scratch_chunks + chunk;
  }
  bool is_scratch(int location) const {
    return location >= schedule_.output_chunks && location < schedule_.output_chunks + schedule_.scratch_chunks;
  }
  std::string name(int location) const {
    if (location < schedule_.output_chunks) return text_of(Buffer::output, location);
    if (is_scratch(location)) return text_of(Buffer::scratch, location - schedule_.output_chunks);
    return text_of(Buffer::input, location - schedule_.output_chunks - schedule_.scratch_chunks);
  }

  void read(int step, int chunks, int rank, const Operand& from) {
    for (int c = 0; c < chunks; ++c)
      add(rank, from.buffer, from.index + c, {step, c, false, from.buffer == Buffer::input});
  }
  // Whether a Step's write to `to` would put a chunk where it is already.
  bool copies_to_itself(const Step& step, int rank, const Destination& to) const {
    if (step.in.size() != 1 || step.postscale) return false;
    const Operand& from = step.in.front();
    return from.kind == Operand::Kind::local && !from.prescale &&
           location(rank, from.buffer, from.index) == location(rank, to.buffer, to.index);
  }
  void write(int step, int chunks, int rank, const Destination& to) {
    for (int c = 0; c < chunks; ++c) add(rank, to.buffer, to.index + c, {step, c, true, false});
  }

  const std::vector<std::vector<Access>>& of(int rank) const { return accesses_[at(rank)]; }

 private:
  void add(int rank, Buffer buffer, int chunk, Access access) {
    accesses_[at(rank)][at(location(rank, buffer, chunk))].push_back(access);
  }

  const Schedule& schedule_;
  bool in_place_;
  std::vector<std::vector<std::vector<Access>>> accesses_;  // [rank][location]
};

bool lends(Transfer transfer) { return transfer == Transfer::lent || transfer == Transfer::mixed; }
bool places(Transfer transfer) { return transfer == Transfer::placed || transfer == Transfer::mixed; }

// All accesses of one round.
Memory accesses_of(const Schedule& schedule, const Wiring& wiring, Transfer transfer, bool in_place) {
  Memory memory(schedule, in_place);
  for (int id = 0; id < wiring.size(); ++id) {
    const Step& step = wiring.step(id);
    const int rank = wiring.place(id).rank;
    for (const Operand& in : step.in)
      if (in.kind == Operand::Kind::local) memory.read(id, step.chunks, rank, in);
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local && !memory.copies_to_itself(step, rank, out))
        memory.write(id, step.chunks, rank, out);
    for (int sender : wiring.senders(id)) {
      if (sender < 0) continue;
      const Step& sending = wiring.step(sender);
      if (lends(transfer) && can_lend(sending))
        memory.read(id, step.chunks, wiring.place(sender).rank, sending.in.front());
      if (places(transfer) && can_place(step)) memory.write(sender, step.chunks, rank, step.out.front());
    }
  }
  return memory;
}

// Why two accesses of one location, the second a write, are not safe; nothing if they are.
const char* conflict(const Clocks& clocks, const Access& access, const Access& write, bool reused_by_rounds) {
  if (access.step == write.step && access.offset != write.offset) return "overlap in part within one step";
  if (access.step != write.step) {
    const bool before = clocks.ordered(access.step, write.step);
    if (!before && !clocks.ordered(write.step, access.step)) return "are not ordered";
    if (access.input && !before) return "come in the wrong order, the input being overwritten first";
  }
  if (reused_by_rounds &&
      (!clocks.ordered_next_round(access.step, write.step) || !clocks.ordered_next_round(write.step, access.step)))
    return "are not ordered from one round to the next";
  return nullptr;
}

std::string mode_name(Transfer transfer, bool in_place) {
  static constexpr const char* kNames[] = {"copied", "lent", "placed", "lent and placed"};
  return std::string("With ") + kNames[static_cast<std::size_t>(transfer)] + " messages, " +
         (in_place ? "in place" : "out of place");
}

// A lent message through an unacknowledged port: the sender must have heard of its use when its operation ends.
std::optional<Fault> check_lent_end(const Schedule& schedule, const Wiring& wiring, const Clocks& clocks) {
  for (int id = 0; id < wiring.size(); ++id)
    for (int sender : wiring.senders(id)) {
      if (sender < 0 || !can_lend(wiring.step(sender))) continue;
      const int port = wiring.sends_through(sender);
      if (schedule.ports[at(port)].acknowledged || clocks.heard_by(wiring.place(sender).rank, id)) continue;
      return Fault{FaultKind::race,
                   "With lent messages, " + text_of(wiring.place(sender)) + " may end its operation before " +
                       text_of(wiring.place(id)) + " has read the message of port " + std::to_string(port) +
                       ", which nobody acknowledges.",
                   wiring.place(sender)};
    }
  return {};
}

}  // namespace

Clocks::Clocks(const Wiring& wiring) : lane_(at(wiring.size())), step_(at(wiring.size())) {
  for (int id = 0; id < wiring.size(); ++id) {
    const StepPlace& place = wiring.place(id);
    if (place.step == 0) {
      last_.push_back(id);
      lane_rank_.push_back(place.rank);
    }
    last_.back() = id;
    lane_[at(id)] = static_cast<int>(last_.size()) - 1;
    step_[at(id)] = place.step;
  }
  lanes_ = static_cast<int>(last_.size());
  clock_.assign(at(wiring.size()) * at(lanes_), 0);
  for (int id : wiring.firing_order()) {
    int* own = &clock_[at(id) * at(lanes_)];
    wiring.for_each_before(id, [&](int before) {
      const int* other = &clock_[at(before) * at(lanes_)];
      for (int l = 0; l < lanes_; ++l) own[l] = std::max(own[l], other[l]);
    });
    own[lane_[at(id)]] = step_[at(id)] + 1;
  }
  for (int last : last_)
    for (int l = 0; l < lanes_; ++l) lane_follows_.push_back(seen(last, l) > 0);
}

std::vector<char> Clocks::lanes_before(int step, int rounds_back) const {
  std::vector<char> lanes(at(lanes_));
  for (int l = 0; l < lanes_; ++l) lanes[at(l)] = seen(step, l) > 0;
  for (int round = 1; round < rounds_back; ++round) {
    std::vector<char> earlier(at(lanes_));
    for (int l = 0; l < lanes_; ++l) {
      const char* follows = &lane_follows_[at(l) * at(lanes_)];
      for (int before = 0; lanes[at(l)] && before < lanes_; ++before) earlier[at(before)] |= follows[before];
    }
    lanes = std::move(earlier);
  }
  return lanes;
}

bool Clocks::reaches_any(int step, const std::vector<char>& lanes) const {
  for (int l = 0; l < lanes_; ++l)
    if (lanes[at(l)] && reaches(step, last_[at(l)])) return true;
  return false;
}

bool Clocks::heard_by(int rank, int step) const {
  for (int l = 0; l < lanes_; ++l)
    if (lane_rank_[at(l)] == rank && reaches(step, last_[at(l)])) return true;
  return false;
}

std::optional<Fault> check_races(const Schedule& schedule, const Wiring& wiring, const Clocks& clocks,
                                 Transfer transfer, bool in_place) {
  if (lends(transfer))
    if (auto fault = check_lent_end(schedule, wiring, clocks)) return fault;
  const Memory memory = accesses_of(schedule, wiring, transfer, in_place);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& locations = memory.of(rank);
    for (int location = 0; location < static_cast<int>(locations.size()); ++location)
      for (const Access& write : locations[at(location)])
        for (const Access& access : locations[at(location)]) {
          if (!write.writes) continue;
          const char* why = conflict(clocks, access, write, memory.is_scratch(location));
          if (why == nullptr) continue;
          return Fault{FaultKind::race,
                       mode_name(transfer, in_place) + ", the " + (access.writes ? "write" : "read") + " of " +
                           memory.name(location) + " of rank " + std::to_string(rank) + " at " +
                           text_of(wiring.place(access.step)) + " and the write at " +
                           text_of(wiring.place(write.step)) + " " + why + ".",
                       wiring.place(write.step)};
        }
  }
  return {};
}

}  // namespace tutti::schedule

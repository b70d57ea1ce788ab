#include "tests/schedule/interpreter.h"

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "src/schedule/collectives.h"

namespace tutti::schedule::testing {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kPrescale = 3, kPostscale = 5;

// (operation, round, rank, input chunk)
using Origin = std::tuple<int, int, int, int>;

struct Value {
  std::vector<Origin> origins;  // sorted; empty: garbage
  std::uint64_t bits = 0;       // depends on the order of combining, but not on that of two operands
  std::uint64_t number = 0;     // the sum, with the factors of pre- and post-scaling
};

Value leaf(int operation, int round, int rank, int chunk) {
  const std::uint64_t number =
      mix(static_cast<std::uint64_t>(((operation * 64 + round) * 64 + rank) * 4096 + chunk + 1));
  return {{{operation, round, rank, chunk}}, number, number};
}

Value combine(const Value& a, const Value& b) {
  Value sum{a.origins, mix(a.bits + b.bits), a.number + b.number};
  if (a.origins.empty() || b.origins.empty()) return {};  // garbage spreads
  sum.origins.insert(sum.origins.end(), b.origins.begin(), b.origins.end());
  std::sort(sum.origins.begin(), sum.origins.end());
  return sum;
}

struct Spot {  // where a chunk of a message lies in some rank's memory
  int rank = 0;
  Buffer buffer = Buffer::input;
  int chunk = 0;
};

struct Message {
  std::vector<Value> values;    // as copied
  Spot lent_from;               // where the sender's first chunk lies
  std::map<int, Transfer> way;  // by reader
};

struct Channel {  // one port at work
  std::vector<Message> slots;
  int sent = 0;
  std::map<int, int> taken;  // by reader
};

struct Cursor {  // one lane at work
  int rank = 0, lane = 0;
  int operation = 0, round = 0, step = 0;
};

class Interpreter {
 public:
  Interpreter(const Schedule& schedule, const Contract& contract, const Run& run)
      : schedule_(schedule), contract_(contract), run_(run), random_(run.seed), ended_(at(schedule.ranks)) {
    for (const Port& port : schedule.ports) {
      channels_.push_back({std::vector<Message>(at(port.acknowledged ? run.slots : 2)), 0, {}});
      for (int reader : port.readers) channels_.back().taken[reader] = 0;
    }
    for (int r = 0; r < schedule.ranks; ++r) {
      for (int l = 0; l < static_cast<int>(schedule.programs[at(r)].lanes.size()); ++l)
        if (!schedule.programs[at(r)].lanes[at(l)].empty()) cursors_.push_back({r, l});
      scratch_.emplace_back(at(schedule.scratch_chunks));
    }
    fill_inputs();
    count_sends();
  }

  Report run() {
    for (;;) {
      std::vector<int> ready;  // cursors, then (from -1 downward) ranks that can end an operation
      for (int i = 0; i < static_cast<int>(cursors_.size()); ++i)
        if (can_fire(cursors_[at(i)])) ready.push_back(i);
      for (int r = 0; r < schedule_.ranks; ++r)
        if (can_end(r)) ready.push_back(-1 - r);
      if (ready.empty()) break;
      const int chosen = ready[random_() % ready.size()];
      if (chosen >= 0)
        fire(cursors_[at(chosen)]);
      else
        end_operation(-1 - chosen);
      if (report_.outcome != Outcome::right) return report_;
    }
    for (int r = 0; r < schedule_.ranks; ++r)
      if (ended_[at(r)] < run_.operations) return {Outcome::stuck, "rank " + std::to_string(r) + " is stuck"};
    return report_;
  }

 private:
  struct Memory {
    std::vector<Value> input, output;
  };

  void fill_inputs() {
    for (int o = 0; o < run_.operations; ++o)
      for (int k = 0; k < run_.rounds; ++k)
        for (int r = 0; r < schedule_.ranks; ++r) {
          Memory& memory = memory_[{o, k, r}];
          memory.input.resize(at(schedule_.input_chunks));
          memory.output.resize(at(schedule_.output_chunks));
          for (int c = 0; c < schedule_.input_chunks; ++c) value_at(o, k, {r, Buffer::input, c}) = leaf(o, k, r, c);
        }
  }

  void count_sends() {
    sends_per_round_.assign(schedule_.ports.size(), 0);
    for (const Program& program : schedule_.programs)
      for (const Lane& lane : program.lanes)
        for (const Step& step : lane)
          for (const Destination& out : step.out)
            if (out.kind == Destination::Kind::send) ++sends_per_round_[at(out.index)];
  }

  Value& value_at(int operation, int round, Spot spot) {
    if (spot.buffer == Buffer::scratch) return scratch_[at(spot.rank)][at(spot.chunk)];
    Memory& memory = memory_[{operation, round, spot.rank}];
    if (spot.buffer == Buffer::output) return memory.output[at(spot.chunk)];
    if (!run_.in_place) return memory.input[at(spot.chunk)];
    const int per_block = schedule_.input_chunks / schedule_.input_blocks;
    const int same = in_place_chunk(schedule_.collective, spot.rank, per_block, spot.chunk);
    return same < 0 ? memory.input[at(spot.chunk)] : memory.output[at(same)];
  }

  const Step& step_of(const Cursor& c) const { return schedule_.programs[at(c.rank)].lanes[at(c.lane)][at(c.step)]; }

  bool has_run(int rank, const Dependency& dependency, const Cursor& now) const {
    for (const Cursor& c : cursors_)
      if (c.rank == rank && c.lane == dependency.lane)
        return std::tuple(c.operation, c.round, c.step) > std::tuple(now.operation, now.round, dependency.step);
    return false;
  }

  bool can_fire(const Cursor& c) const {
    if (c.operation >= run_.operations || (run_.blocking && c.operation > ended_[at(c.rank)])) return false;
    const Step& step = step_of(c);
    for (const Operand& in : step.in) {
      if (in.kind == Operand::Kind::local) continue;
      const Channel& channel = channels_[at(in.index)];
      if (channel.taken.at(c.rank) >= channel.sent) return false;
    }
    for (const Dependency& dependency : step.after)
      if (!has_run(c.rank, dependency, c)) return false;
    for (const Destination& out : step.out) {
      if (out.kind == Destination::Kind::local || !schedule_.ports[at(out.index)].acknowledged) continue;
      const Channel& channel = channels_[at(out.index)];
      for (const auto& [reader, taken] : channel.taken)
        if (channel.sent - taken >= run_.slots) return false;
    }
    return true;
  }

  // The n-th message that a reader takes, of the Step that takes it.
  const Step& taker(int port, int reader, int message) const {
    int n = message % sends_per_round_[at(port)];
    for (const Lane& lane : schedule_.programs[at(reader)].lanes)
      for (const Step& step : lane)
        for (const Operand& in : step.in)
          if (in.kind == Operand::Kind::recv && in.index == port && n-- == 0) return step;
    throw std::logic_error("no such receive");
  }

  Value operand(const Cursor& c, const Operand& in, int k) {
    if (in.kind == Operand::Kind::local) {
      Value value = value_at(c.operation, c.round, {c.rank, in.buffer, in.index + k});
      if (in.prescale) value.number *= kPrescale;
      return value;
    }
    Channel& channel = channels_[at(in.index)];
    Message& message = channel.slots[at(channel.taken.at(c.rank)) % channel.slots.size()];
    if (message.way[c.rank] == Transfer::lent) {
      Spot spot = message.lent_from;
      spot.chunk += k;
      Value value = value_at(c.operation, c.round, spot);
      if (spot.buffer == Buffer::input && traits_of(schedule_.collective).reduces) value.number *= kPrescale;
      return value;
    }
    return at(k) < message.values.size() ? message.values[at(k)] : Value{};
  }

  // Whether this Step has had its only message written to its destination already.
  bool is_placed(const Cursor& c) {
    const Step& step = step_of(c);
    if (!can_place(step)) return false;
    Channel& channel = channels_[at(step.in.front().index)];
    Message& message = channel.slots[at(channel.taken.at(c.rank)) % channel.slots.size()];
    return message.way[c.rank] == Transfer::placed;
  }

  void fire(Cursor& c) {
    const Step& step = step_of(c);
    if (!is_placed(c)) {
      // Element by element: all operands of one chunk are read before any of its destinations is written.
      std::vector<Value> values;
      for (int k = 0; k < step.chunks && !step.in.empty(); ++k) {
        values.push_back(operand(c, step.in.front(), k));
        for (std::size_t i = 1; i < step.in.size(); ++i)
          values.back() = combine(values.back(), operand(c, step.in[i], k));
        if (step.postscale) values.back().number *= kPostscale;
        for (const Destination& out : step.out)
          if (out.kind == Destination::Kind::local && !copies_to_itself(c, step, out))
            value_at(c.operation, c.round, {c.rank, out.buffer, out.index + k}) = values.back();
      }
      for (const Destination& out : step.out)
        if (out.kind == Destination::Kind::send) send(c, out.index, values);
    }
    for (const Operand& in : step.in)
      if (in.kind == Operand::Kind::recv) ++channels_[at(in.index)].taken[c.rank];
    advance(c);
  }

  bool copies_to_itself(const Cursor& c, const Step& step, const Destination& out) {
    if (step.in.size() != 1 || step.in[0].kind != Operand::Kind::local || step.in[0].prescale || step.postscale)
      return false;
    return &value_at(c.operation, c.round, {c.rank, step.in[0].buffer, step.in[0].index}) ==
           &value_at(c.operation, c.round, {c.rank, out.buffer, out.index});
  }

  Transfer choose(const Step& sender, const Step& receiver) {
    const bool lend = can_lend(sender) && (run_.transfer == Transfer::lent || run_.transfer == Transfer::mixed);
    const bool place = can_place(receiver) && (run_.transfer == Transfer::placed || run_.transfer == Transfer::mixed);
    if (lend && random_() % 3 != 0) return Transfer::lent;
    if (place && random_() % 3 != 0) return Transfer::placed;
    return Transfer::copied;
  }

  void send(const Cursor& c, int port, const std::vector<Value>& values) {
    const Step& step = step_of(c);
    Channel& channel = channels_[at(port)];
    Message message{values, {}, {}};
    if (can_lend(step)) message.lent_from = {c.rank, step.in[0].buffer, step.in[0].index};
    for (const auto& [reader, taken] : channel.taken) {
      const Step& receiver = taker(port, reader, channel.sent);
      message.way[reader] = choose(step, receiver);
      if (message.way[reader] == Transfer::placed)
        for (int k = 0; k < receiver.chunks; ++k)
          value_at(c.operation, c.round, {reader, receiver.out[0].buffer, receiver.out[0].index + k}) = values[at(k)];
    }
    channel.slots[at(channel.sent) % channel.slots.size()] = std::move(message);
    ++channel.sent;
  }

  void advance(Cursor& c) {
    if (++c.step < static_cast<int>(schedule_.programs[at(c.rank)].lanes[at(c.lane)].size())) return;
    c.step = 0;
    if (++c.round < run_.rounds) return;
    c.round = 0;
    ++c.operation;
  }

  // A rank's operation ends when its lanes are through, and its acknowledged messages have been taken by their readers.
  bool can_end(int rank) const {
    const int operation = ended_[at(rank)];
    if (operation >= run_.operations) return false;
    for (const Cursor& c : cursors_)
      if (c.rank == rank && c.operation <= operation) return false;
    for (std::size_t p = 0; p < channels_.size(); ++p) {
      if (schedule_.ports[p].writer != rank || !schedule_.ports[p].acknowledged) continue;
      for (const auto& [reader, taken] : channels_[p].taken)
        if (taken < (operation + 1) * run_.rounds * sends_per_round_[p]) return false;
    }
    return true;
  }

  // Looks at the result, then spoils the buffers, as their owner may.
  void end_operation(int rank) {
    const int operation = ended_[at(rank)]++;
    for (int k = 0; k < run_.rounds; ++k) {
      for (int c = 0; c < schedule_.output_chunks; ++c) check(operation, k, rank, c);
      Memory& memory = memory_[{operation, k, rank}];
      std::fill(memory.input.begin(), memory.input.end(), Value{});
      std::fill(memory.output.begin(), memory.output.end(), Value{});
    }
  }

  void check(int operation, int round, int rank, int chunk) {
    const Value& value = memory_[{operation, round, rank}].output[at(chunk)];
    const int set = contract_.set_of[at(rank)][at(chunk)];
    if (set == Contract::kUnlisted) return;
    Value expected;
    const bool reducing = traits_of(schedule_.collective).reduces;
    for (const Contribution& from : contract_.sets[at(set)]) {
      const Value one = leaf(operation, round, from.rank, from.chunk);
      expected.origins.push_back(one.origins.front());
      expected.number += one.number * (reducing ? kPrescale * kPostscale : 1);
    }
    std::sort(expected.origins.begin(), expected.origins.end());
    const auto [first, is_new] = bits_.insert({{operation, round, set}, value.bits});
    if (value.origins != expected.origins || value.number != expected.number || first->second != value.bits)
      report_ = {Outcome::wrong, "operation " + std::to_string(operation) + ", round " + std::to_string(round) +
                                     ", rank " + std::to_string(rank) + ", output chunk " + std::to_string(chunk)};
  }

  const Schedule& schedule_;
  const Contract& contract_;
  const Run run_;
  std::mt19937 random_;
  std::vector<Channel> channels_;
  std::vector<Cursor> cursors_;
  std::vector<int> ended_;                              // operations, by rank
  std::vector<int> sends_per_round_;                    // by port
  std::map<std::tuple<int, int, int>, Memory> memory_;  // by (operation, round, rank)
  std::vector<std::vector<Value>> scratch_;
  std::map<std::tuple<int, int, int>, std::uint64_t> bits_;  // of the first holder, by (operation, round, set)
  Report report_;
};

}  // namespace

Report interpret(const Schedule& schedule, const Contract& contract, const Run& run) {
  return Interpreter(schedule, contract, run).run();
}

}  // namespace tutti::schedule::testing

// Runs every algorithm in both forms - the Schedule, by a small interpreter written here, and the compiled program, by
// the executor - on the same inputs, and compares all messages and all output bits. All ranks of the compiled form live
// in this one thread, in an order drawn at random, so that every interleaving of ranks is fair game and repeatable.
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "kernels/host/kernels.h"
#include "src/runtime/connections.h"
#include "src/runtime/executor.h"
#include "src/schedule/builders.h"
#include "src/schedule/partition.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;
using schedule::Schedule;

namespace {

using Bytes = std::vector<std::byte>;

struct Case {
  Schedule schedule;
  DataType type = DataType::float32;
  std::size_t count = 0;
  std::uint32_t slots = 2, slot_bytes = 1024;
  bool in_place = false;
};

struct Result {
  std::vector<Bytes> outputs;                  // by rank
  std::map<int, std::vector<Bytes>> messages;  // by port, in order
};

const Kernels& plain_kernels() { return *kernels::available_host_kernels().back(); }

std::size_t message_chunks(const Schedule& s) {
  int most = 1;
  for (const auto& program : s.programs)
    for (const auto& lane : program.lanes)
      for (const auto& step : lane) most = std::max(most, step.chunks);
  return static_cast<std::size_t>(most);
}

struct Slicing {
  std::size_t slice, rounds;
};
Slicing slicing(const Case& c) {
  const std::size_t element = size_of(c.type);
  const std::size_t slice = c.slot_bytes / message_chunks(c.schedule) / 64 * 64 / element;
  std::size_t chunk =
      schedule::largest_chunk(c.count, std::size_t(c.schedule.input_chunks / c.schedule.input_blocks), element);
  chunk = std::max(chunk, schedule::largest_chunk(
                              c.count, std::size_t(c.schedule.output_chunks / c.schedule.output_blocks), element));
  return {slice, std::max<std::size_t>(1, (chunk + slice - 1) / slice)};
}

// Rank r's buffers: the input's bytes are random; in place the output starts as the input.
struct Buffers {
  Bytes input, output, scratch;
  bool in_place = false;
  std::byte* at(schedule::Buffer b) {
    if (b == schedule::Buffer::scratch) return scratch.data();
    return b == schedule::Buffer::input && !in_place ? input.data() : output.data();
  }
};

std::vector<Buffers> make_buffers(const Case& c, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Buffers> all(std::size_t(c.schedule.ranks));
  for (Buffers& b : all) {
    b.in_place = c.in_place;
    b.input.resize(std::size_t(c.schedule.input_blocks) * c.count * size_of(c.type));
    b.output.resize(std::size_t(c.schedule.output_blocks) * c.count * size_of(c.type));
    if (c.schedule.scratch_chunks > 0)
      b.scratch.resize(std::size_t(c.schedule.scratch_blocks) * c.count * size_of(c.type));
    for (std::byte& x : b.input) x = std::byte(random() & 0x3f);  // finite floats of every type
    if (c.in_place) std::copy(b.input.begin(), b.input.end(), b.output.begin());
  }
  return all;
}

// ---- the Schedule, interpreted ----

struct Interpreter {
  const Case& c;
  std::vector<Buffers> buffers;
  Result result;
  std::map<std::pair<int, int>, std::deque<Bytes>> queues;  // (port, reader) -> messages

  schedule::Extent place(schedule::Buffer buffer, int chunk, std::size_t round) const {
    const Schedule& s = c.schedule;
    const int per = buffer == schedule::Buffer::input    ? s.input_chunks / s.input_blocks
                    : buffer == schedule::Buffer::output ? s.output_chunks / s.output_blocks
                                                         : s.scratch_chunks / s.scratch_blocks;
    schedule::Extent e = schedule::chunk_extent(c.count, std::size_t(per), size_of(c.type), std::size_t(chunk % per));
    e.begin += std::size_t(chunk / per) * c.count;
    return schedule::slice_extent(e, slicing(c).slice, round);
  }

  // The bytes of a local operand or destination, chunk by chunk.
  std::vector<std::pair<std::byte*, std::size_t>> pieces(int rank, schedule::Buffer b, int chunk, int chunks,
                                                         std::size_t round) {
    std::vector<std::pair<std::byte*, std::size_t>> out;
    for (int i = 0; i < chunks; ++i) {
      const auto e = place(b, chunk + i, round);
      out.emplace_back(buffers[std::size_t(rank)].at(b) + e.begin * size_of(c.type), e.count * size_of(c.type));
    }
    return out;
  }

  bool run_step(int rank, const schedule::Step& step, std::size_t round) {
    for (const auto& in : step.in)
      if (in.kind == schedule::Operand::Kind::recv && queues[{in.index, rank}].empty()) return false;
    std::vector<Bytes> operands;
    for (const auto& in : step.in) {
      if (in.kind == schedule::Operand::Kind::recv) {
        operands.push_back(queues[{in.index, rank}].front());
        queues[{in.index, rank}].pop_front();
      } else {
        Bytes bytes;
        for (const auto& [data, size] : pieces(rank, in.buffer, in.index, step.chunks, round))
          bytes.insert(bytes.end(), data, data + size);
        operands.push_back(bytes);
      }
    }
    Bytes value = operands.empty() ? Bytes{} : operands[0];
    if (operands.size() > 1) {
      std::vector<ReduceInput> in;
      for (const Bytes& operand : operands) {
        REQUIRE(operand.size() == value.size());
        in.push_back({operand.data(), false});
      }
      Bytes sum(value.size());
      const ReduceOutput out{sum.data(), false};
      plain_kernels().reduce[std::size_t(c.type)][0]({in, {&out, 1}, value.size() / size_of(c.type), 1});
      value = sum;
    }
    for (const auto& out : step.out) {
      if (out.kind == schedule::Destination::Kind::send) {
        result.messages[out.index].push_back(value);
        for (const int reader : c.schedule.ports[std::size_t(out.index)].readers)
          queues[{out.index, reader}].push_back(value);
      } else {
        std::size_t done = 0;
        for (const auto& [data, size] : pieces(rank, out.buffer, out.index, step.chunks, round)) {
          std::copy_n(value.begin() + std::ptrdiff_t(done), size, data);
          done += size;
        }
        REQUIRE(done == value.size());
      }
    }
    return true;
  }

  Result run() {
    // Round by round with unbounded queues: the plainest order there is.
    for (std::size_t round = 0; round < slicing(c).rounds; ++round) {
      std::vector<std::vector<std::size_t>> done(c.schedule.programs.size());
      for (std::size_t r = 0; r < done.size(); ++r) done[r].assign(c.schedule.programs[r].lanes.size(), 0);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < done.size(); ++r)
          for (std::size_t l = 0; l < done[r].size(); ++l) {
            const auto& lane = c.schedule.programs[r].lanes[l];
            if (done[r][l] == lane.size()) continue;
            const auto& step = lane[done[r][l]];
            bool ready = true;
            for (const auto& after : step.after)
              ready = ready && done[r][std::size_t(after.lane)] > std::size_t(after.step);
            if (ready && run_step(int(r), step, round)) ++done[r][l], moved = true;
          }
      }
      for (std::size_t r = 0; r < done.size(); ++r)
        for (std::size_t l = 0; l < done[r].size(); ++l) REQUIRE(done[r][l] == c.schedule.programs[r].lanes[l].size());
    }
    for (Buffers& b : buffers) result.outputs.push_back(b.output);
    return result;
  }
};

// ---- the compiled form ----

// Hands out the other ranks' rings and memory: all are in this thread.
class OneThread final : public Transport {
 public:
  explicit OneThread(std::vector<std::unique_ptr<Arena>>& arenas) : arenas_(arenas) {}
  std::string_view name() const override { return "one thread"; }
  Blob address() const override { return {}; }
  void set_peers(std::vector<Blob>) override {}
  std::optional<std::string> unreachable(int) override { return std::nullopt; }
  void add_reader(PortId, const Ring&, std::uint32_t, int, bool) override {}
  std::optional<Incoming> find_ring(PortId port, int peer, std::uint32_t reader, const RingGeometry&, bool) override {
    const auto ring = arenas_[std::size_t(peer)]->view().find(port);
    if (!ring) return std::nullopt;
    return Incoming{*ring, reader};
  }
  Reach reach(int) const override { return Reach::mapped; }
  DirectFlags* direct_flags(int peer) override { return &arenas_[std::size_t(peer)]->view().direct(); }
  std::optional<std::byte*> map(int, const MemoryAddress& where, std::size_t) override {
    return const_cast<std::byte*>(where.local);
  }
  bool progress() override { return false; }
  void flush(std::chrono::steady_clock::time_point) override {}

 private:
  std::vector<std::unique_ptr<Arena>>& arenas_;
};

class CompiledRanks {
 public:
  explicit CompiledRanks(const Case& c) : c_(c) {
    const auto ranks = std::size_t(c.schedule.ranks);
    for (std::size_t r = 0; r < ranks; ++r)
      arenas_.push_back(std::make_unique<Arena>(1, int(r), std::size_t{32} << 20));
    transport_ = std::make_unique<OneThread>(arenas_);
    for (std::size_t i = 0; i < c.schedule.ports.size(); ++i) {
      const schedule::Port& port = c.schedule.ports[i];
      port_of_[port_id(c.schedule, port, ring_geometry(port, c.slots, c.slot_bytes), 0)] = int(i);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      connections_.push_back(
          std::make_unique<Connections>(int(r), arenas_[r].get(), std::vector<Transport*>(ranks, transport_.get())));
      BoundProgram& program = programs_.emplace_back();
      program.code = lower(c.schedule, int(r), c.slots, c.slot_bytes, 0);
      program.cursors.resize(program.code.lanes());
      program.inputs.resize(program.code.most_operands);
      program.outputs.resize(program.code.most_destinations);
      connections_[r]->make_rings(program);
      program.receives.assign(program.code.receives.size(), nullptr);
    }
    for (std::size_t r = 0; r < ranks; ++r) REQUIRE(connections_[r]->bind_receives(programs_[r]));
  }

  // Direct: every buffer can be reached by the other ranks with a chance of 3 in 4. A rank that is done gets its
  // buffers back, and ruins them at once.
  Result run(std::vector<Buffers> buffers, std::mt19937& random, bool direct) {
    Result result;
    result.outputs.resize(buffers.size());
    ++sequence_;
    const auto address = [&](const std::byte* data) { return MemoryAddress{data, random() % 4 != 0 ? 1u : 0u, 0}; };
    const auto ranks = std::size_t(c_.schedule.ranks);
    std::vector<Execution> executions(ranks);
    std::vector<bool> started(ranks);
    std::vector<std::size_t> busy(ranks);
    std::iota(busy.begin(), busy.end(), 0);
    std::map<int, std::uint64_t> seen;
    std::vector<Call> calls(ranks);
    const auto start = [&](std::size_t r) {
      Call& call = calls[r];
      call.input = buffers[r].at(schedule::Buffer::input);
      call.output = buffers[r].output.data();
      call.scratch = buffers[r].scratch.data();
      call.count = c_.count;
      call.element_bytes = size_of(c_.type);
      call.slice = slicing(c_).slice;
      call.rounds = slicing(c_).rounds;
      call.reduce = plain_kernels().reduce[std::size_t(c_.type)][0];
      call.copy = plain_kernels().copy;
      call.fingerprint = 99;
      call.direct = direct;
      call.sequence = sequence_;
      call.input_at = address(call.input);
      call.output_at = call.input == call.output ? call.input_at : address(call.output);
      call.flags = &arenas_[r]->view().direct();
      executions[r].start(programs_[r], call, 1);
      for (std::size_t i = 0; i < programs_[r].sends.size(); ++i)
        seen[port_of_.at(programs_[r].code.sends[i].id)] = programs_[r].sends[i]->next;
    };
    int idle = 0;
    while (!busy.empty()) {
      const std::size_t pick = random() % busy.size();
      const std::size_t r = busy[pick];
      if (!started[r]) start(r);  // ranks enter when they like
      started[r] = true;
      const auto state = executions[r].advance();
      REQUIRE(state != Execution::State::mismatch);
      for (std::size_t i = 0; i < programs_[r].sends.size(); ++i) {
        const SendEnd& end = *programs_[r].sends[i];
        std::uint64_t& next = seen[port_of_.at(programs_[r].code.sends[i].id)];
        for (; next < end.next; ++next) {
          SlotHeader& slot = end.ring.slot(next);
          REQUIRE(slot.stamp.load() == stamp_of(1, next));
          if (slot.size != slot.bytes()) {  // lent or placed
            ++direct_messages;
            continue;
          }
          const std::byte* payload = Ring::payload(slot, slot.bytes());
          result.messages[port_of_.at(programs_[r].code.sends[i].id)].emplace_back(payload, payload + slot.bytes());
        }
      }
      idle = state == Execution::State::blocked ? idle + 1 : 0;
      REQUIRE(idle < 10000);  // everybody blocked: a deadlock
      if (state != Execution::State::done) continue;
      busy.erase(busy.begin() + std::ptrdiff_t(pick));
      result.outputs[r] = buffers[r].output;
      std::fill(buffers[r].input.begin(), buffers[r].input.end(), std::byte{0xEE});
      std::fill(buffers[r].output.begin(), buffers[r].output.end(), std::byte{0xEE});
    }
    return result;
  }

  std::size_t direct_messages = 0;

 private:
  const Case& c_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<OneThread> transport_;
  std::map<PortId, int> port_of_;  // in the Schedule
  std::vector<std::unique_ptr<Connections>> connections_;
  std::deque<BoundProgram> programs_;
  std::uint64_t sequence_ = 0;
};

void check_both_forms(const Case& c, std::uint32_t seed, std::size_t& direct_messages) {
  INFO(c.schedule.name << " " << name_of(c.schedule.collective) << " ranks " << c.schedule.ranks << " count " << c.count
                       << " " << name_of(c.type) << (c.in_place ? " in place" : ""));
  std::mt19937 random(seed);
  CompiledRanks compiled(c);
  for (int call = 0; call < 3; ++call) {  // rings are used again and wrap around
    const std::vector<Buffers> buffers = make_buffers(c, seed + std::uint32_t(call));
    const Result expected = Interpreter{c, buffers, {}, {}}.run();
    const Result actual = compiled.run(buffers, random, false);
    REQUIRE(actual.messages == expected.messages);
    REQUIRE(actual.outputs == expected.outputs);
    if (!c.schedule.direct) continue;
    REQUIRE(compiled.run(buffers, random, true).outputs == expected.outputs);
  }
  direct_messages += compiled.direct_messages;
}

}  // namespace

TEST_CASE("the compiled form sends the same messages and stores the same bits as the schedule") {
  std::uint32_t seed = 1;
  std::map<std::string, std::size_t> direct;  // messages that were lent or placed, by algorithm
  for (const schedule::Builder& builder : schedule::builders()) {
    const std::string title = std::string(name_of(builder.collective)) + " " + std::string(builder.name);
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13})
      for (const std::size_t count : {0ul, 1ul, 5ul, 97ul, 1009ul, 5000ul})
        for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::int8}) {
          // The largest cases take most of the time: not every type of each.
          if (ranks * count > 10'000 && static_cast<std::uint32_t>(type) % 3 != seed++ % 3) continue;
          schedule::Shape shape;
          shape.ranks = ranks;
          shape.lanes = 1 + int(seed % 2);
          if (builder.rooted) shape.root = int(seed % std::uint32_t(ranks));
          Case c{builder.build(shape), type, count};
          c.slot_bytes = std::uint32_t(64 * message_chunks(c.schedule)) * (1 + seed % 4);
          c.in_place = seed % 3 == 0 && c.schedule.input_blocks == 1 && c.schedule.output_blocks == 1;
          check_both_forms(c, seed++, direct[title]);
        }
    CHECK((direct[title] > 0) == builder.build({.ranks = 4}).direct);
  }
}

TEST_CASE("a message of another call is noticed and its rank named") {
  schedule::Shape shape;
  shape.ranks = 2;
  const Case c{schedule::find_builder(Collective::all_reduce, "oneshot")->build(shape), DataType::float32, 4};
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int r = 0; r < 2; ++r) arenas.push_back(std::make_unique<Arena>(1, r, std::size_t{1} << 20));
  OneThread transport(arenas);
  BoundProgram programs[2];
  Connections a(0, arenas[0].get(), {&transport, &transport}), b(1, arenas[1].get(), {&transport, &transport});
  Connections* connections[2] = {&a, &b};
  for (int r = 0; r < 2; ++r) {
    programs[r].code = lower(c.schedule, r, 2, 64, 0);
    programs[r].cursors.resize(programs[r].code.lanes());
    programs[r].inputs.resize(programs[r].code.most_operands);
    programs[r].outputs.resize(programs[r].code.most_destinations);
    connections[r]->make_rings(programs[r]);
    programs[r].receives.assign(programs[r].code.receives.size(), nullptr);
  }
  std::vector<float> data(4);
  Execution executions[2];
  Call calls[2];
  for (int r = 0; r < 2; ++r) {
    REQUIRE(connections[r]->bind_receives(programs[r]));
    Call& call = calls[r];
    call.input = call.output = reinterpret_cast<std::byte*>(data.data());
    call.count = 4;
    call.element_bytes = 4;
    call.slice = 16;
    call.reduce = plain_kernels().reduce[std::size_t(DataType::float32)][0];
    call.copy = plain_kernels().copy;
    call.fingerprint = std::uint32_t(100 + r);
    executions[r].start(programs[r], call, 1);
  }
  executions[0].advance();
  CHECK(executions[1].advance() == Execution::State::mismatch);
  CHECK(executions[1].mismatched_rank() == 0);
}

#include "src/simulator/simulator.h"

#include <algorithm>
#include <queue>
#include <string>

#include "src/schedule/message_shape.h"
#include "src/schedule/partition.h"
#include "src/schedule/wiring.h"
#include "tutti/error.h"

namespace tutti::simulator {
namespace {

using schedule::Buffer;
using schedule::Destination;
using schedule::Operand;
using schedule::Port;
using schedule::Schedule;
using schedule::Step;
using schedule::Wiring;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// How the chunks of each Step are cut.
class Slicer {
 public:
  Slicer(const Schedule& schedule, const Wiring& wiring, std::size_t count, DataType type, std::uint32_t slot_bytes)
      : wiring_(wiring), count_(count), element_bytes_(size_of(type)), chunks_of_(at(wiring.size())) {
    const schedule::MessageShape shape(schedule);
    slice_ = shape.slice_elements(slot_bytes, count, element_bytes_);
    rounds_ = shape.rounds(slot_bytes, count, element_bytes_);
    const auto order = wiring.firing_order();  // so that a relayed message's sender comes first
    for (const int id : order) chunks_of_[at(id)] = find(schedule, id);
  }

  std::size_t rounds() const { return rounds_; }

  std::size_t bytes(int id, std::size_t round) const {
    const Chunks& chunks = chunks_of_[at(id)];
    std::size_t elements = 0;
    for (int i = 0; i < wiring_.step(id).chunks; ++i) {
      const std::size_t chunk = at(chunks.first + i) % at(chunks.per_block);
      const auto extent = schedule::chunk_extent(count_, at(chunks.per_block), element_bytes_, chunk);
      elements += schedule::slice_extent(extent, slice_, round).count;
    }
    return elements * element_bytes_;
  }

 private:
  struct Chunks {
    int first = 0;
    int per_block = 1;
  };

  // A Step's chunks are those of any buffer it touches; of a Step that touches none, those of a message it takes.
  Chunks find(const Schedule& schedule, int id) const {
    const auto in = [&](Buffer buffer, int index) -> Chunks {
      switch (buffer) {
        case Buffer::input: return {index, std::max(1, schedule.input_chunks / std::max(1, schedule.input_blocks))};
        case Buffer::output: return {index, std::max(1, schedule.output_chunks / std::max(1, schedule.output_blocks))};
        case Buffer::scratch:
          return {index, std::max(1, schedule.scratch_chunks / std::max(1, schedule.scratch_blocks))};
      }
      return {};
    };
    const Step& step = wiring_.step(id);
    for (const Destination& out : step.out)
      if (out.kind == Destination::Kind::local) return in(out.buffer, out.index);
    for (const Operand& operand : step.in)
      if (operand.kind == Operand::Kind::local) return in(operand.buffer, operand.index);
    for (const int sender : wiring_.senders(id))
      if (sender >= 0) return chunks_of_[at(sender)];
    return {};
  }

  const Wiring& wiring_;
  std::size_t count_, element_bytes_, slice_ = 0, rounds_ = 1;
  std::vector<Chunks> chunks_of_;
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Model& model, std::size_t count, DataType type, std::uint32_t slots,
             std::uint32_t slot_bytes, bool trace)
      : schedule_(schedule),
        model_(model),
        slots_(slots),
        trace_(trace),
        wiring_(schedule),
        slicer_(schedule, wiring_, count, type, slot_bytes) {
    for (const Port& port : schedule.ports) {
      first_connection_.push_back(static_cast<int>(connections_.size()));
      for (const std::int32_t reader : port.readers) {
        Connection& connection = connections_.emplace_back();
        connection.use = {static_cast<int>(first_connection_.size()) - 1, port.writer, reader};
        connection.link = remote(port.writer, reader) ? model.remote : model.link;
      }
    }
    number_operands();
    for (int rank = 0; rank < static_cast<int>(schedule.programs.size()); ++rank) {
      first_lane_.push_back(static_cast<int>(lanes_.size()));
      const auto& lanes = schedule.programs[at(rank)].lanes;
      for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane)
        lanes_.push_back(
            {.rank = rank, .first = wiring_.id(rank, lane, 0), .steps = static_cast<int>(lanes[at(lane)].size())});
    }
    first_lane_.push_back(static_cast<int>(lanes_.size()));
    rank_free_.assign(schedule.programs.size(), 0.0);
    result_.rank_finish_us.assign(schedule.programs.size(), 0.0);
    result_.rounds = slicer_.rounds();
  }

  Result run() {
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) try_start(lane, 0);
    while (!happenings_.empty()) {
      const Happening next = happenings_.top();
      happenings_.pop();
      if (next.connection >= 0)
        arrive(next.connection, next.time);
      else
        finish(next.lane, next.time);
    }
    check_finished();
    for (const Connection& connection : connections_) {
      result_.connections.push_back(connection.use);
      result_.messages += connection.use.messages;
    }
    std::stable_sort(result_.trace.begin(), result_.trace.end(),
                     [](const Event& a, const Event& b) { return a.begin_us < b.begin_us; });
    return std::move(result_);
  }

 private:
  struct Connection {
    ConnectionUse use;
    Link link;
    double free_at = 0;
    std::size_t arrived = 0;  // messages
    std::size_t taken = 0;
    int reader_lane = -1;
  };
  struct LaneState {
    int rank = 0;
    int first = 0;  // id of its Step 0
    int steps = 0;
    int step = 0;
    std::size_t round = 0;
    std::size_t done = 0;     // Steps finished, of all rounds
    std::size_t operand = 0;  // of the current Step: those before it have arrived
    bool running = false;
    double begin_us = 0;
    int id() const { return first + step; }
  };
  // A message can be taken, or (connection < 0) a lane's current Step has ended.
  struct Happening {
    double time = 0;
    std::uint64_t number = 0;  // equal times: first come, first served
    int connection = -1;
    int lane = -1;
    friend bool operator<(const Happening& a, const Happening& b) {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  bool remote(int a, int b) const {
    return !model_.host_of_rank.empty() && model_.host_of_rank[at(a)] != model_.host_of_rank[at(b)];
  }

  // For every operand of every Step: the connection it takes a message of; which message that is tells the wiring. For
  // every port and connection: the lane at its end.
  void number_operands() {
    messages_per_round_.assign(schedule_.ports.size(), 0);
    port_lane_.assign(schedule_.ports.size(), -1);
    int lane = -1;
    for (int id = 0; id < wiring_.size(); ++id) {
      if (wiring_.place(id).step == 0) ++lane;
      first_operand_.push_back(operand_connection_.size());
      for (const Operand& operand : wiring_.step(id).in) {
        operand_connection_.push_back(-1);
        if (operand.kind != Operand::Kind::recv) continue;
        const auto& readers = schedule_.ports[at(operand.index)].readers;
        const auto reader = std::find(readers.begin(), readers.end(), wiring_.place(id).rank) - readers.begin();
        const int connection = first_connection_[at(operand.index)] + static_cast<int>(reader);
        operand_connection_.back() = connection;
        connections_[at(connection)].reader_lane = lane;
      }
      const int port = wiring_.sends_through(id);
      if (port < 0) continue;
      ++messages_per_round_[at(port)];
      port_lane_[at(port)] = lane;
    }
  }

  // Whether what the current Step waits for has happened. Operands that have arrived are not looked at again.
  bool ready(LaneState& lane) {
    const int id = lane.id();
    const Step& step = wiring_.step(id);
    for (; lane.operand < step.in.size(); ++lane.operand) {
      const int connection = operand_connection_[first_operand_[at(id)] + lane.operand];
      if (connection < 0) continue;
      const int sender = wiring_.senders(id)[lane.operand];
      if (sender < 0) return false;  // nobody sends it
      const std::size_t port = at(step.in[lane.operand].index);
      const std::size_t message = lane.round * messages_per_round_[port] + at(wiring_.message_number(sender));
      if (connections_[at(connection)].arrived <= message) return false;
    }
    for (const schedule::Dependency& before : step.after) {
      const LaneState& other = lanes_[at(first_lane_[at(lane.rank)] + before.lane)];
      if (other.done < lane.round * at(other.steps) + at(before.step) + 1) return false;
    }
    const int port = wiring_.sends_through(id);
    if (port < 0) return true;
    const std::size_t message = lane.round * messages_per_round_[at(port)] + at(wiring_.message_number(id));
    for (std::size_t reader = 0; reader < schedule_.ports[at(port)].readers.size(); ++reader)
      if (connections_[at(first_connection_[at(port)]) + reader].taken + slots_ <= message) return false;
    return true;
  }

  void try_start(int index, double now) {
    LaneState& lane = lanes_[at(index)];
    if (lane.running || lane.round == slicer_.rounds() || lane.steps == 0 || !ready(lane)) return;
    const Step& step = wiring_.step(lane.id());
    const double bytes = static_cast<double>(slicer_.bytes(lane.id(), lane.round));
    double end = now + model_.step_us;
    const double reducing =
        step.in.size() < 2 ? 0 : model_.gamma_us_per_byte * bytes * static_cast<double>(step.in.size() - 1);
    if (reducing > 0) end = rank_free_[at(lane.rank)] = std::max(end, rank_free_[at(lane.rank)]) + reducing;
    lane.running = true;
    lane.begin_us = now;
    happenings_.push({end, number_++, -1, index});
  }

  void finish(int index, double now) {
    LaneState& lane = lanes_[at(index)];
    const int id = lane.id();
    const auto place = wiring_.place(id);
    const std::size_t bytes = slicer_.bytes(id, lane.round);
    if (trace_)
      result_.trace.push_back(
          {Event::Kind::step, place.rank, place.lane, place.step, -1, lane.round, bytes, lane.begin_us, now});
    if (const int port = wiring_.sends_through(id); port >= 0)
      for (std::size_t r = 0; r < schedule_.ports[at(port)].readers.size(); ++r)
        send(first_connection_[at(port)] + static_cast<int>(r), lane, bytes, now);

    result_.rank_finish_us[at(lane.rank)] = std::max(result_.rank_finish_us[at(lane.rank)], now);
    result_.total_us = std::max(result_.total_us, now);
    lane.running = false;
    lane.operand = 0;
    ++lane.done;
    if (++lane.step == lane.steps) {
      lane.step = 0;
      ++lane.round;
    }
    // What it took may free slots, what it did may be waited for in other lanes of its rank.
    for (std::size_t i = 0; i < wiring_.step(id).in.size(); ++i) {
      const int connection = operand_connection_[first_operand_[at(id)] + i];
      if (connection < 0) continue;
      ++connections_[at(connection)].taken;
      try_start(port_lane_[at(connections_[at(connection)].use.port)], now);
    }
    for (int other = first_lane_[at(lane.rank)]; other < first_lane_[at(lane.rank) + 1]; ++other) try_start(other, now);
  }

  void send(int index, const LaneState& lane, std::size_t bytes, double now) {
    Connection& connection = connections_[at(index)];
    const double begin = std::max(now, connection.free_at);
    const double moved = connection.link.beta_us_per_byte * static_cast<double>(bytes);
    connection.free_at = begin + moved;
    connection.use.busy_us += moved;
    connection.use.bytes += bytes;
    ++connection.use.messages;
    const double end = begin + moved + connection.link.alpha_us;
    const auto place = wiring_.place(lane.id());
    if (trace_)
      result_.trace.push_back({Event::Kind::message, connection.use.reader, place.lane, place.step, connection.use.port,
                               lane.round, bytes, begin, end});
    happenings_.push({end, number_++, index, -1});
  }

  void arrive(int index, double now) {
    ++connections_[at(index)].arrived;
    if (connections_[at(index)].reader_lane >= 0) try_start(connections_[at(index)].reader_lane, now);
  }

  void check_finished() const {
    for (const LaneState& lane : lanes_) {
      if (lane.steps == 0 || lane.round == slicer_.rounds()) continue;
      const auto place = wiring_.place(lane.id());
      throw Error(ErrorCode::invalid_argument, "schedule '" + schedule_.name + "' comes to a standstill with " +
                                                   std::to_string(slots_) + " slots per port: rank " +
                                                   std::to_string(place.rank) + ", lane " + std::to_string(place.lane) +
                                                   ", step " + std::to_string(place.step) +
                                                   " waits for ever in round " + std::to_string(lane.round));
    }
  }

  const Schedule& schedule_;
  const Model& model_;
  std::uint32_t slots_;
  bool trace_;
  Wiring wiring_;
  Slicer slicer_;
  std::vector<Connection> connections_;  // by port, then reader
  std::vector<int> first_connection_;    // by port
  std::vector<std::size_t> messages_per_round_;
  std::vector<int> port_lane_;  // who sends through it
  std::vector<LaneState> lanes_;
  std::vector<int> first_lane_;  // by rank, and one more
  std::vector<std::size_t> first_operand_;
  std::vector<int> operand_connection_;
  std::vector<double> rank_free_;
  std::priority_queue<Happening> happenings_;
  std::uint64_t number_ = 0;
  Result result_;
};

void check(const Schedule& schedule, const Model& model, std::uint32_t slots) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, "simulator: " + what); };
  if (slots == 0) refuse("0 slots; there must be at least 1");
  if (!model.host_of_rank.empty() && model.host_of_rank.size() != schedule.programs.size())
    refuse("host_of_rank has " + std::to_string(model.host_of_rank.size()) + " entries for " +
           std::to_string(schedule.programs.size()) + " ranks");
  for (const double value : {model.link.alpha_us, model.link.beta_us_per_byte, model.remote.alpha_us,
                             model.remote.beta_us_per_byte, model.gamma_us_per_byte, model.step_us})
    if (!(value >= 0 && value < 1e300))
      refuse("a cost of the model is " + std::to_string(value) + "; it must be 0 or more");
}

}  // namespace

Result simulate(const Schedule& schedule, const Model& model, std::size_t count, DataType type, std::uint32_t slots,
                std::uint32_t slot_bytes, bool trace) {
  check(schedule, model, slots);
  return Simulation(schedule, model, count, type, slots, slot_bytes, trace).run();
}

}  // namespace tutti::simulator

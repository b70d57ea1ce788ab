#include <algorithm>
#include <map>

#include "src/runtime/compiled.h"
#include "src/schedule/transfer.h"

namespace tutti::runtime {
namespace {

using schedule::Destination;
using schedule::Operand;
using schedule::Port;
using schedule::Schedule;
using schedule::Step;

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  hash *= 0xFF51AFD7ED558CCDu;
  return hash ^ hash >> 33;
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, int rank, std::uint32_t slots, std::uint32_t slot_bytes, std::uint32_t generation)
      : schedule_(schedule), rank_(rank), slots_(slots), slot_bytes_(slot_bytes), generation_(generation) {
    if (schedule.direct) find_placeable();
  }

  CompiledProgram run() {
    out_.shape[0] = {schedule_.input_blocks, schedule_.input_chunks / schedule_.input_blocks};
    out_.shape[1] = {schedule_.output_blocks, schedule_.output_chunks / schedule_.output_blocks};
    out_.shape[2] = {schedule_.scratch_blocks, schedule_.scratch_chunks / schedule_.scratch_blocks};
    for (const schedule::Lane& lane : schedule_.programs.at(static_cast<std::size_t>(rank_)).lanes) {
      out_.lane_begin.push_back(static_cast<std::uint32_t>(out_.steps.size()));
      for (const Step& step : lane) add(step);
    }
    out_.lane_begin.push_back(static_cast<std::uint32_t>(out_.steps.size()));
    out_.exchange = is_exchange();
    return std::move(out_);
  }

 private:
  void add(const Step& step) {
    CompiledStep compiled{};
    compiled.chunks = step.chunks;
    compiled.postscale = step.postscale;
    compiled.send = -1;
    compiled.in_begin = static_cast<std::uint32_t>(out_.operands.size());
    for (const Operand& operand : step.in) {
      const bool recv = operand.kind == Operand::Kind::recv;
      const std::int32_t index = recv ? end_of(operand.index, false) : operand.index;
      if (recv) ++out_.receives[static_cast<std::size_t>(index)].per_round;
      out_.operands.push_back({operand.kind, operand.buffer, operand.prescale, index});
    }
    compiled.in_end = static_cast<std::uint32_t>(out_.operands.size());
    compiled.out_begin = static_cast<std::uint32_t>(out_.destinations.size());
    int port_of_send = -1;
    for (const Destination& destination : step.out) {
      if (destination.kind == Destination::Kind::send)
        compiled.send = end_of(port_of_send = destination.index, true);
      else
        out_.destinations.push_back({destination.buffer, destination.index});
    }
    compiled.out_end = static_cast<std::uint32_t>(out_.destinations.size());
    compiled.place_begin = -1;
    if (compiled.send >= 0 && schedule_.direct) add_direct(step, port_of_send, compiled);
    compiled.after_begin = static_cast<std::uint32_t>(out_.dependencies.size());
    for (const schedule::Dependency& after : step.after)
      out_.dependencies.push_back({static_cast<std::uint32_t>(after.lane), static_cast<std::uint32_t>(after.step)});
    compiled.after_end = static_cast<std::uint32_t>(out_.dependencies.size());
    out_.most_operands = std::max(out_.most_operands, compiled.in_end - compiled.in_begin);
    out_.most_destinations =
        std::max(out_.most_destinations, compiled.out_end - compiled.out_begin + (compiled.send >= 0 ? 1u : 0u));
    out_.steps.push_back(compiled);
  }

  bool is_exchange() const {
    const schedule::Program& program = schedule_.programs.at(static_cast<std::size_t>(rank_));
    if (schedule_.input_chunks != 1 || schedule_.output_chunks != 1) return false;
    if (program.lanes.size() != 1 || program.lanes[0].size() != 2) return false;
    const Step& publish = program.lanes[0][0];
    const Step& reduce = program.lanes[0][1];
    const auto is_input = [](const Operand& in) {
      return in.kind == Operand::Kind::local && in.buffer == schedule::Buffer::input;
    };
    return publish.in.size() == 1 && is_input(publish.in[0]) && publish.out.size() == 1 &&
           publish.out[0].kind == Destination::Kind::send &&
           std::all_of(reduce.in.begin(), reduce.in.end(),
                       [&](const Operand& in) { return in.kind == Operand::Kind::recv || is_input(in); }) &&
           reduce.out.size() == 1 && reduce.out[0] == Destination::local(schedule::Buffer::output, 0) &&
           std::none_of(schedule_.ports.begin(), schedule_.ports.end(),
                        [](const Port& port) { return port.acknowledged; });
  }

  // For every port that this rank writes or reads, the output chunks into which each reader stores the port's messages,
  // in order; -1 where it does something else with one.
  void find_placeable() {
    std::vector<bool> concerned(static_cast<std::size_t>(schedule_.ranks));  // this rank, and who reads from it
    concerned[static_cast<std::size_t>(rank_)] = true;
    for (const Port& port : schedule_.ports)
      if (port.writer == rank_)
        for (const int reader : port.readers) concerned[static_cast<std::size_t>(reader)] = true;
    for (int reader = 0; reader < schedule_.ranks; ++reader) {
      if (!concerned[static_cast<std::size_t>(reader)]) continue;
      for (const schedule::Lane& lane : schedule_.programs[static_cast<std::size_t>(reader)].lanes)
        for (const Step& step : lane)
          for (const Operand& operand : step.in) {
            if (operand.kind != Operand::Kind::recv) continue;
            const bool mine =
                reader == rank_ || schedule_.ports[static_cast<std::size_t>(operand.index)].writer == rank_;
            if (!mine) continue;
            const bool placeable = schedule::can_place(step);
            stored_[{operand.index, reader}].push_back(placeable ? step.out.front().index : -1);
          }
    }
  }

  void add_direct(const Step& step, int port, CompiledStep& compiled) {
    compiled.lends = schedule::can_lend(step);
    PortEnd& end = out_.sends[static_cast<std::size_t>(compiled.send)];
    const std::size_t message = sent_[port]++;
    const auto begin = static_cast<std::int32_t>(out_.places.size());
    for (const int reader : end.readers) {
      const std::int32_t chunk = stored_.at({port, reader}).at(message);
      if (chunk < 0) return out_.places.resize(static_cast<std::size_t>(begin));
      out_.places.push_back(chunk);
    }
    compiled.place_begin = begin;
    end.places = true;
    out_.most_destinations = std::max(
        out_.most_destinations, compiled.out_end - compiled.out_begin + static_cast<std::uint32_t>(end.readers.size()));
  }

  // Whether this rank, a reader of the port, stores some message in its output; then the writer may want to place it.
  bool places(int port_index) const {
    const auto& first = stored_.at({port_index, rank_});
    return std::any_of(first.begin(), first.end(), [](std::int32_t chunk) { return chunk >= 0; });
  }

  // Index of this rank's end of `port`, made at first use.
  std::int32_t end_of(int port_index, bool sending) {
    auto& known = sending ? send_ends_ : receive_ends_;
    auto& ends = sending ? out_.sends : out_.receives;
    const auto [entry, fresh] = known.try_emplace(port_index, static_cast<std::int32_t>(ends.size()));
    if (!fresh) return entry->second;
    const Port& port = schedule_.ports.at(static_cast<std::size_t>(port_index));
    PortEnd end;
    end.writer = port.writer;
    end.readers = port.readers;
    end.geometry = ring_geometry(port, slots_, slot_bytes_);
    end.acknowledged = port.acknowledged;
    end.id = port_id(schedule_, port, end.geometry, generation_);
    if (!sending) {
      if (schedule_.direct) end.places = places(port_index);
      const auto self = std::find(port.readers.begin(), port.readers.end(), rank_);
      end.reader = static_cast<std::uint32_t>(self - port.readers.begin());
    }
    ends.push_back(end);
    return entry->second;
  }

  const Schedule& schedule_;
  const int rank_;
  const std::uint32_t slots_, slot_bytes_, generation_;
  CompiledProgram out_;
  std::map<int, std::int32_t> send_ends_, receive_ends_;
  std::map<std::pair<int, int>, std::vector<std::int32_t>> stored_;  // by port and reader
  std::map<int, std::size_t> sent_;                                  // messages so far, by port
};

}  // namespace

PortId port_id(const Schedule& schedule, const Port& port, const RingGeometry& geometry, std::uint32_t generation) {
  std::uint64_t hash = mix(0x7475747469, generation);
  hash = mix(hash, static_cast<std::uint32_t>(port.writer));
  for (const int reader : port.readers) hash = mix(hash, static_cast<std::uint32_t>(reader));
  hash = mix(hash, static_cast<std::uint32_t>(port.channel));
  hash = mix(hash, std::uint64_t{geometry.slots} << 32 | geometry.slot_bytes);
  if (!port.acknowledged) {
    hash = mix(hash, static_cast<std::uint64_t>(schedule.collective) << 32 | static_cast<std::uint32_t>(schedule.root));
    for (const char c : schedule.name) hash = mix(hash, static_cast<unsigned char>(c));
  }
  hash &= ~kLastingPort;
  return hash == 0 ? 1 : hash;  // zero marks an unused entry of an arena's directory
}

CompiledProgram lower(const Schedule& schedule, int rank, std::uint32_t slots, std::uint32_t slot_bytes,
                      std::uint32_t generation) {
  return Lowering(schedule, rank, slots, slot_bytes, generation).run();
}

}  // namespace tutti::runtime

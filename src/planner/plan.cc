#include "src/planner/plan.h"

#include <concepts>
#include <string_view>

namespace tutti::planner {
namespace {

// FNV-1a, 64 bits: the same on every machine, which std::hash is not.
class Hash {
 public:
  template <std::integral Integer>
  void add(Integer value) {
    for (int byte = 0; byte < 8; ++byte)
      mix(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * byte)));
  }
  void add(std::string_view text) {
    for (char c : text) mix(static_cast<unsigned char>(c));
    add(text.size());
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

void add(Hash& hash, const schedule::Step& step) {
  hash.add(step.in.size());
  for (const auto& in : step.in) {
    hash.add(static_cast<int>(in.kind) << 8 | static_cast<int>(in.buffer));
    hash.add(in.index);
  }
  hash.add(step.out.size());
  for (const auto& out : step.out) {
    hash.add(static_cast<int>(out.kind) << 8 | static_cast<int>(out.buffer));
    hash.add(out.index);
  }
  hash.add(step.chunks);
  hash.add(step.after.size());
  for (const auto& before : step.after) {
    hash.add(before.lane);
    hash.add(before.step);
  }
}

}  // namespace

std::size_t Plan::slice_elements(std::size_t count, DataType type) const {
  return shape.slice_elements(slot_bytes, count, size_of(type));
}

std::size_t Plan::rounds(std::size_t count, DataType type) const {
  return shape.rounds(slot_bytes, count, size_of(type));
}

Plan make_plan(std::shared_ptr<const schedule::Schedule> schedule, std::uint32_t slots, std::uint32_t slot_bytes) {
  Plan plan;
  plan.shape = schedule::MessageShape(*schedule);
  plan.id = plan_id(hash_of(*schedule), slots, slot_bytes);
  plan.schedule = std::move(schedule);
  plan.slots = slots;
  plan.slot_bytes = slot_bytes;
  return plan;
}

std::uint64_t hash_of(const schedule::Schedule& schedule) {
  Hash hash;
  hash.add(schedule.name);
  for (const std::int32_t fact : {static_cast<std::int32_t>(schedule.collective), schedule.ranks, schedule.root,
                                  schedule.input_blocks, schedule.output_blocks, schedule.scratch_blocks,
                                  schedule.input_chunks, schedule.output_chunks, schedule.scratch_chunks})
    hash.add(fact);
  hash.add(schedule.direct);
  for (const schedule::Port& port : schedule.ports) {
    hash.add(port.writer);
    hash.add(port.readers.size());
    for (const std::int32_t reader : port.readers) hash.add(reader);
    hash.add(port.channel);
    hash.add(port.acknowledged);
  }
  for (const schedule::Program& program : schedule.programs) {
    hash.add(program.lanes.size());
    for (const schedule::Lane& lane : program.lanes) {
      hash.add(lane.size());
      for (const schedule::Step& step : lane) add(hash, step);
    }
  }
  return hash.value();
}

std::uint64_t plan_id(std::uint64_t schedule_hash, std::uint32_t slots, std::uint32_t slot_bytes) {
  Hash hash;
  hash.add(schedule_hash);
  hash.add(slots);
  hash.add(slot_bytes);
  return hash.value();
}

}  // namespace tutti::planner

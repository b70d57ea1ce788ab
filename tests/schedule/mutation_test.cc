// A campaign of random mutations: whatever the verifier accepts must run right under every interleaving tried, in every
// way to move messages that it calls safe; whatever it calls a deadlock must get stuck under every one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "src/schedule/builders.h"
#include "src/schedule/verifier.h"
#include "tests/schedule/interpreter.h"

using namespace tutti::schedule;
using namespace tutti::schedule::testing;

namespace {

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  int below(std::size_t n) { return static_cast<int>(random_() % n); }
  bool chance(int one_in) { return below(static_cast<std::size_t>(one_in)) == 0; }

  Schedule random_schedule() {
    const Builder& builder = builders()[static_cast<std::size_t>(below(builders().size()))];
    Shape shape{.ranks = 2 + below(4), .lanes = 1 + below(2)};
    shape.root = below(static_cast<std::size_t>(shape.ranks));
    for (int r = 0; r < shape.ranks; ++r) shape.order.push_back(r);
    std::shuffle(shape.order.begin(), shape.order.end(), random_);
    return builder.build(shape);
  }

  // One small change somewhere; may leave the Schedule as it is when there is nothing to change.
  void mutate(Schedule& s) {
    switch (below(14)) {
      case 0: return drop_step(s);
      case 1: return repeat_step(s);
      case 2: return swap_steps(s);
      case 3: return swap_operands(s);
      case 4: return drop_operand(s);
      case 5: return alter_operand(s);
      case 6: return alter_destination(s);
      case 7: return drop_destination(s);
      case 8: return alter_port(s);
      case 9: return drop_dependency(s);
      case 10: return add_dependency(s);
      case 11: return through_scratch(s);
      default: return split_lane(s);
    }
  }

 private:
  template <class T>
  T& any(std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(list.size()))];
  }

  Lane* any_lane(Schedule& s) {
    auto& lanes = any(s.programs).lanes;
    if (lanes.empty()) return nullptr;
    Lane& lane = any(lanes);
    return lane.empty() ? nullptr : &lane;
  }
  Step* any_step(Schedule& s) {
    Lane* lane = any_lane(s);
    return lane ? &any(*lane) : nullptr;
  }

  void drop_step(Schedule& s) {
    if (Lane* lane = any_lane(s)) lane->erase(lane->begin() + below(lane->size()));
  }
  void repeat_step(Schedule& s) {
    if (Lane* lane = any_lane(s)) lane->insert(lane->begin() + below(lane->size()), Step(any(*lane)));
  }
  void swap_steps(Schedule& s) {
    if (Lane* lane = any_lane(s)) std::swap(any(*lane), any(*lane));
  }
  void swap_operands(Schedule& s) {
    if (Step* step = any_step(s); step && !step->in.empty()) std::swap(any(step->in), any(step->in));
  }
  void drop_operand(Schedule& s) {
    if (Step* step = any_step(s); step && step->in.size() > 1)
      step->in.erase(step->in.begin() + below(step->in.size()));
  }
  void alter_operand(Schedule& s) {
    Step* step = any_step(s);
    if (!step || step->in.empty()) return;
    Operand& in = any(step->in);
    if (in.kind == Operand::Kind::local && chance(2))
      in.buffer = in.buffer == Buffer::input ? Buffer::output : Buffer::input;
    else
      in.index += chance(2) ? 1 : -1;
  }
  void alter_destination(Schedule& s) {
    if (Step* step = any_step(s); step && !step->out.empty()) any(step->out).index += chance(2) ? 1 : -1;
  }
  void drop_destination(Schedule& s) {
    if (Step* step = any_step(s); step && !step->out.empty())
      step->out.erase(step->out.begin() + below(step->out.size()));
  }
  void alter_port(Schedule& s) {
    if (s.ports.empty()) return;
    Port& port = any(s.ports);
    if (chance(4))
      std::swap(port.readers, any(s.ports).readers);
    else
      port.acknowledged = !port.acknowledged;
  }
  void drop_dependency(Schedule& s) {
    if (Step* step = any_step(s); step && !step->after.empty())
      step->after.erase(step->after.begin() + below(step->after.size()));
  }
  void add_dependency(Schedule& s) {
    auto& lanes = any(s.programs).lanes;
    if (lanes.size() < 2) return;
    const int from = below(lanes.size()), to = below(lanes.size());
    Lane& waiting = lanes[static_cast<std::size_t>(from)];
    const Lane& other = lanes[static_cast<std::size_t>(to)];
    if (from != to && !waiting.empty() && !other.empty()) any(waiting).after.push_back({to, below(other.size())});
  }
  // A step's result goes to scratch, and from there to where it should go: the next step, in its lane or another.
  void through_scratch(Schedule& s) {
    auto& lanes = any(s.programs).lanes;
    if (lanes.empty()) return;
    const int lane = below(lanes.size());
    Lane& steps = lanes[static_cast<std::size_t>(lane)];
    if (steps.empty()) return;
    const int at = below(steps.size());
    const bool shift = std::any_of(lanes.begin(), lanes.end(), [&](const Lane& l) {
      return std::any_of(l.begin(), l.end(), [&](const Step& step) {
        return std::any_of(step.after.begin(), step.after.end(), [&](const Dependency& d) { return d.lane == lane; });
      });
    });
    Step& step = steps[static_cast<std::size_t>(at)];
    if (shift || step.out.size() != 1 || step.out[0].kind != Destination::Kind::local || step.in.empty()) return;
    const int per_block = s.input_chunks / s.input_blocks;
    if (s.scratch_chunks == 0) s.scratch_chunks = per_block;
    const int chunk = step.out[0].index % per_block;
    Step copy{.in = {Operand::local(Buffer::scratch, chunk)}, .out = step.out, .chunks = step.chunks};
    step.out[0] = Destination::local(Buffer::scratch, chunk);
    if (chance(2)) {
      steps.insert(steps.begin() + at + 1, copy);
    } else {
      if (!chance(3)) copy.after.push_back({lane, at});
      lanes.push_back({copy});
      if (chance(2))
        lanes[static_cast<std::size_t>(lane)].front().after.push_back({static_cast<int>(lanes.size()) - 1, 0});
    }
  }
  // The end of a lane becomes a lane of its own, that waits for the beginning, or not.
  void split_lane(Schedule& s) {
    auto& lanes = any(s.programs).lanes;
    if (lanes.empty()) return;
    const int lane = below(lanes.size());
    Lane& steps = lanes[static_cast<std::size_t>(lane)];
    if (steps.size() < 2) return;
    const int at = 1 + below(steps.size() - 1);
    Lane rest(steps.begin() + at, steps.end());
    steps.resize(static_cast<std::size_t>(at));
    const int added = static_cast<int>(lanes.size());
    for (Lane& l : lanes)
      for (Step& step : l)
        for (Dependency& d : step.after)
          if (d.lane == lane && d.step >= at) d = {added, d.step - at};
    if (!chance(3)) rest.front().after.push_back({lane, at - 1});
    lanes.push_back(rest);
  }

  std::mt19937 random_;
};

// Verifies with marks that fit, since no mutation is meant for them.
Verdict verify_with_marks(Schedule& schedule, int slots) {
  Verdict verdict = verify(schedule, slots);
  if (verdict.kind == FaultKind::structure) return verdict;
  derive_scaling(schedule);
  return verify(schedule, slots);
}

struct Tally {
  int accepted = 0, altered = 0, hazards = 0, hazards_seen = 0, runs = 0;
  std::map<FaultKind, int> refused, refused_seen;
};

// Runs an accepted schedule in every way that is called safe; counts hazards that show in a way that is not.
void run_accepted(const Schedule& schedule, const Verdict& verdict, int slots, std::uint32_t seed, Tally& tally) {
  const Contract contract = contract_of(schedule);
  for (Transfer transfer : {Transfer::copied, Transfer::lent, Transfer::placed, Transfer::mixed})
    for (bool in_place : {false, true}) {
      const bool safe = verdict.safe.allows(transfer, in_place);
      bool seen = false;
      for (std::uint32_t i = 0; i < 4; ++i) {
        const int more = safe ? static_cast<int>(i) : 0;  // proved for more slots as well
        const Run run{.slots = slots + more,
                      .rounds = 1 + static_cast<int>(i % 3),
                      .operations = 3,
                      .transfer = transfer,
                      .in_place = in_place,
                      .blocking = i % 2 == 1,
                      .seed = seed * 16 + i};
        const auto report = interpret(schedule, contract, run);
        ++tally.runs;
        seen = seen || report.outcome != Outcome::right;
        if (!safe) continue;
        INFO("seed " << seed << ", " << schedule.name << ", " << schedule.ranks << " ranks, " << run.slots
                     << " slots, transfer " << static_cast<int>(transfer)
                     << (in_place ? ", in place: " : ", out of place: ") << report.text);
        REQUIRE(report.outcome == Outcome::right);
      }
      tally.hazards += !safe;
      tally.hazards_seen += !safe && seen;
    }
}

void run_refused(const Schedule& schedule, const Verdict& verdict, int slots, std::uint32_t seed, Tally& tally) {
  ++tally.refused[verdict.kind];
  if (verdict.kind == FaultKind::structure) return;
  const Contract contract = contract_of(schedule);
  bool seen = false;
  for (std::uint32_t i = 0; i < 8 && !seen; ++i) {
    const auto report = interpret(schedule, contract, {.slots = slots, .seed = seed * 16 + i});
    seen = report.outcome != Outcome::right;
    if (verdict.kind == FaultKind::deadlock && report.outcome != Outcome::wrong) {
      INFO("seed " << seed << ", " << schedule.name << ": " << verdict.fault);
      REQUIRE(report.outcome == Outcome::stuck);
    }
  }
  tally.refused_seen[verdict.kind] += seen;
}

void campaign(std::uint32_t first_seed, std::uint32_t seeds, Tally& tally) {
  for (std::uint32_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    Mutator mutator(seed);
    Schedule schedule = mutator.random_schedule();
    const int mutations = mutator.below(4);
    for (int i = 0; i < mutations; ++i) mutator.mutate(schedule);
    const int slots = 1 + mutator.below(3);
    const Verdict verdict = verify_with_marks(schedule, slots);
    if (!verdict.ok) {
      REQUIRE_FALSE(verdict.fault.empty());
      run_refused(schedule, verdict, slots, seed, tally);
      continue;
    }
    ++tally.accepted;
    tally.altered += mutations > 0;
    run_accepted(schedule, verdict, slots, seed, tally);
  }
}

void check_campaign(const Tally& tally) {
  UNSCOPED_INFO("accepted " << tally.accepted << ", of these mutated " << tally.altered << ", hazards " << tally.hazards
                            << ", seen " << tally.hazards_seen << ", in " << tally.runs << " runs");
  // The campaign means something only if it reaches every kind of answer, and if most refusals are seen to be right.
  CHECK(tally.altered * 4 > tally.accepted);
  CHECK(tally.hazards_seen * 2 > tally.hazards);
  for (FaultKind kind :
       {FaultKind::deadlock, FaultKind::race, FaultKind::contract, FaultKind::unequal_results, FaultKind::slot_reuse}) {
    REQUIRE(tally.refused.count(kind) == 1);
    INFO("kind " << static_cast<int>(kind));
    CHECK(tally.refused_seen.at(kind) * 2 > tally.refused.at(kind));
  }
  CHECK(tally.refused_seen.at(FaultKind::deadlock) == tally.refused.at(FaultKind::deadlock));
}

}  // namespace

#ifndef TUTTI_MUTATION_SEEDS
#define TUTTI_MUTATION_SEEDS 3000
#endif

TEST_CASE("what the verifier accepts runs right, and what it calls a deadlock gets stuck") {
  Tally tally;
  campaign(1, TUTTI_MUTATION_SEEDS, tally);
  check_campaign(tally);
}

// Faults planted into right schedules: each must be found, with its kind and the rank, lane and step at fault.
#include "src/schedule/verifier.h"

#include <catch2/catch.hpp>
#include <utility>

#include "src/schedule/builders.h"
#include "tutti/error.h"

using namespace tutti::schedule;
using Catch::Matchers::Contains;
using tutti::Collective;

namespace {

Schedule build(const char* name, int ranks, int lanes = 1, Collective collective = Collective::all_reduce) {
  const Builder* builder = find_builder(collective, name);
  REQUIRE(builder != nullptr);
  Schedule schedule = builder->build({.ranks = ranks, .lanes = lanes});
  REQUIRE(verify(schedule, builder->min_slots).ok);
  return schedule;
}

Lane& lane_of(Schedule& schedule, std::size_t rank, std::size_t lane = 0) {
  return schedule.programs.at(rank).lanes.at(lane);
}

Verdict refuse(const Schedule& schedule, FaultKind kind, int rank, int lane, int step, int slots = 2) {
  const Verdict verdict = verify(schedule, slots);
  INFO(verdict.fault);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.kind == kind);
  CHECK(verdict.rank == rank);
  CHECK(verdict.lane == lane);
  CHECK(verdict.step == step);
  CHECK_FALSE(verdict.safe.allows(Transfer::copied, false));
  return verdict;
}

Operand input(int chunk) { return Operand::local(Buffer::input, chunk); }
Operand output_of(int chunk) { return Operand::local(Buffer::output, chunk); }
Operand scratch_of(int chunk) { return Operand::local(Buffer::scratch, chunk); }
Operand from(int port) { return Operand::recv(port); }
Destination output(int chunk) { return Destination::local(Buffer::output, chunk); }
Destination scratch(int chunk) { return Destination::local(Buffer::scratch, chunk); }
Destination to(int port) { return Destination::send(port); }

// Two ranks that exchange their input through ports 0 and 1; the lanes are up to the test.
Schedule pair_of_ranks() {
  Schedule schedule;
  schedule.ranks = 2;
  schedule.ports = {{0, {1}, 0, true}, {1, {0}, 0, true}};
  schedule.programs.resize(2);
  return schedule;
}

// Both ranks send in lane 0; lane 1 receives into scratch and, apart, reduces from there.
Schedule exchange_through_scratch() {
  Schedule schedule = pair_of_ranks();
  schedule.scratch_chunks = 1;
  for (int rank = 0; rank < 2; ++rank) {
    Lane send{{.in = {input(0)}, .out = {to(rank)}}};
    Lane receive{{.in = {from(1 - rank)}, .out = {scratch(0)}}, {.in = {input(0), scratch_of(0)}, .out = {output(0)}}};
    schedule.programs[static_cast<std::size_t>(rank)].lanes = {send, receive};
  }
  derive_scaling(schedule);
  REQUIRE(verify(schedule, 1).ok);
  return schedule;
}

}  // namespace

TEST_CASE("a dropped step that only stores leaves its chunk unwritten") {
  Schedule schedule = build("oneshot", 3);
  lane_of(schedule, 1)[1].out.clear();
  const Verdict verdict = refuse(schedule, FaultKind::contract, 1, -1, -1);
  CHECK_THAT(verdict.fault, Contains("Output chunk 0 of rank 1 is never written"));
}

TEST_CASE("a dropped step that moves messages leaves one without its counterpart") {
  Schedule schedule = build("ring", 4);
  Lane& lane = lane_of(schedule, 2);
  lane.erase(lane.begin() + 3);
  // Rank 2 now sends 5 messages where rank 3 takes 6, and takes 5 where rank 1 sends 6; port 1 is looked at first.
  const Verdict verdict = refuse(schedule, FaultKind::structure, 1, 0, 5);
  CHECK_THAT(verdict.fault, Contains("port 1") && Contains("rank 1 sends 6") && Contains("rank 2 takes 5"));
}

TEST_CASE("a dropped operand lacks its contribution") {
  Schedule schedule = build("twoshot", 3);
  Step& reduce = lane_of(schedule, 1)[2];
  REQUIRE(reduce.in.size() == 3);
  REQUIRE(reduce.in[1] == Operand{Operand::Kind::local, Buffer::input, true, 1});
  reduce.in.erase(reduce.in.begin() + 1);
  const Verdict verdict = refuse(schedule, FaultKind::contract, 0, 0, 3);
  CHECK_THAT(verdict.fault, Contains("Output chunk 1 of rank 0 lacks the contribution of input chunk 1 of rank 1"));
}

TEST_CASE("a three-operand order that differs on one rank is named there") {
  Schedule schedule = build("oneshot", 3);
  std::swap(lane_of(schedule, 2)[1].in[0], lane_of(schedule, 2)[1].in[1]);
  const Verdict verdict = refuse(schedule, FaultKind::unequal_results, 2, 0, 1);
  CHECK_THAT(verdict.fault, Contains("chunk 0 of rank 2") && Contains("another order"));
}

TEST_CASE("two operands may swap on one rank, and three on all ranks alike") {
  Schedule two = build("oneshot", 2);
  std::swap(lane_of(two, 1)[1].in[0], lane_of(two, 1)[1].in[1]);
  CHECK(verify(two, 2).ok);
  Schedule three = build("oneshot", 3);
  for (std::size_t rank = 0; rank < 3; ++rank) std::swap(lane_of(three, rank)[1].in[0], lane_of(three, rank)[1].in[2]);
  CHECK(verify(three, 2).ok);
}

TEST_CASE("a contribution reduced twice is named where it happens") {
  Schedule schedule = build("ring", 4);
  Step& step = lane_of(schedule, 3)[2];
  step.in.push_back(step.in[1]);
  const Verdict verdict = refuse(schedule, FaultKind::contract, 3, 0, 2);
  CHECK_THAT(verdict.fault, Contains("reduces input chunk 1 of rank 3 twice"));
}

TEST_CASE("the wrong chunk is named where chunks of different extents meet") {
  Schedule schedule = build("ring", 4);
  lane_of(schedule, 0)[1].in[1].index = 0;
  const Verdict verdict = refuse(schedule, FaultKind::contract, 0, 0, 1);
  CHECK_THAT(verdict.fault, Contains("input chunk 0") && Contains("port 3"));
  Schedule moved = build("ring", 4);
  lane_of(moved, 0)[6].out[0].index = 1;
  CHECK_THAT(refuse(moved, FaultKind::contract, 0, 0, 6).fault, Contains("output chunk 1"));
}

TEST_CASE("another rank's block in the wrong place is named") {
  Schedule schedule = build("ring", 4, 1, Collective::all_gather);
  std::swap(lane_of(schedule, 1)[2].out[0].index, lane_of(schedule, 1)[3].out[0].index);
  const Verdict verdict = refuse(schedule, FaultKind::contract, 1, 0, 2);
  CHECK_THAT(verdict.fault, Contains("Output chunk 2 of rank 1 lacks the contribution of input chunk 0 of rank 2"));
}

TEST_CASE("reading what nothing has written is a fault") {
  Schedule schedule = build("halving_doubling", 4);
  // Rank 1's second message of the halving comes from the output; the first must not.
  lane_of(schedule, 1)[0].in[0].buffer = Buffer::output;
  derive_scaling(schedule);
  CHECK_THAT(refuse(schedule, FaultKind::contract, 1, 0, 0).fault, Contains("reads output chunk 2"));
}

TEST_CASE("writing a chunk that the contract does not list is a fault") {
  const Schedule schedule = build("tree", 3);
  Contract contract = contract_of(schedule);
  CHECK(verify(schedule, contract, 1).ok);
  contract.set_of[1].assign(2, Contract::kUnlisted);  // as for a reduction to ranks 0 and 2 alone
  const Verdict verdict = verify(schedule, contract, 1);
  CHECK(verdict.kind == FaultKind::contract);
  CHECK(verdict.rank == 1);
  CHECK_THAT(verdict.fault, Contains("writes output chunk") && Contains("must be left alone"));
  contract.set_of.pop_back();
  CHECK_THROWS_AS(verify(schedule, contract, 1), tutti::Error);
}

TEST_CASE("too few slots deadlock the ring, in a circle of waits that is told") {
  const Schedule schedule = build("ring", 3);
  const Verdict verdict = refuse(schedule, FaultKind::deadlock, 0, 0, 1, 1);
  CHECK_THAT(verdict.fault, Contains("1 slot per port") &&
                                Contains("rank 0, lane 0, step 1 waits for a slot of port 0") &&
                                Contains("rank 1, lane 0, step 1") && Contains("rank 2, lane 0, step 1"));
  CHECK(verify(schedule, 2).ok);
  CHECK(verify(schedule, 100).ok);
  CHECK_THROWS_AS(verify(schedule, 0), tutti::Error);
}

TEST_CASE("receiving before sending deadlocks with any number of slots") {
  Schedule schedule = pair_of_ranks();
  for (int rank = 0; rank < 2; ++rank)
    schedule.programs[static_cast<std::size_t>(rank)].lanes = {
        {{.in = {from(1 - rank), input(0)}, .out = {output(0)}}, {.in = {input(0)}, .out = {to(rank)}}}};
  derive_scaling(schedule);
  for (int slots : {1, 2, 50}) CHECK(refuse(schedule, FaultKind::deadlock, 0, 0, 0, slots).fault.size() > 0);
  std::swap(lane_of(schedule, 1)[0], lane_of(schedule, 1)[1]);
  derive_scaling(schedule);
  CHECK(verify(schedule, 1).ok);
}

TEST_CASE("lanes that wait for each other deadlock") {
  Schedule schedule = build("tree", 2, 1);
  REQUIRE(schedule.programs[0].lanes.size() == 3);
  schedule.programs[0].lanes[0][0].after = {{1, 0}};
  schedule.programs[0].lanes[1][0].after = {{0, 0}};
  const Verdict verdict = refuse(schedule, FaultKind::deadlock, 0, 0, 0);
  CHECK_THAT(verdict.fault, Contains("rank 0, lane 0, step 0 waits for rank 0, lane 1, step 0"));
}

TEST_CASE("slots within one round count too: two messages before the first is taken") {
  // Rank 0 sends twice before it receives, rank 1 sends only after it has received both at once in its second step.
  Schedule schedule = pair_of_ranks();
  schedule.input_chunks = schedule.output_chunks = 2;
  Lane first{{.in = {input(0)}, .out = {to(0)}}, {.in = {input(1)}, .out = {to(0)}}};
  Lane second{{.in = {input(0)}, .out = {to(1)}}, {.in = {input(1)}, .out = {to(1)}}};
  for (int c = 0; c < 2; ++c) {
    first.push_back({.in = {input(c), from(1)}, .out = {output(c)}});
    second.push_back({.in = {input(c), from(0)}, .out = {output(c)}});
  }
  schedule.programs[0].lanes = {first};
  schedule.programs[1].lanes = {second};
  derive_scaling(schedule);
  CHECK_THAT(refuse(schedule, FaultKind::deadlock, 0, 0, 1, 1).fault,
             Contains("port 0") && Contains("rank 1, lane 0, step 2"));
  CHECK(verify(schedule, 2).ok);
}

TEST_CASE("a missing dependency between lanes is a race") {
  Schedule schedule = build("halving_doubling", 2);
  // The doubling moves to a lane of its own; it must come after the halving of the same rank.
  Lane& lane = lane_of(schedule, 0);
  REQUIRE(lane.size() == 4);
  Lane doubling(lane.begin() + 2, lane.begin() + 3);
  lane.erase(lane.begin() + 2);
  schedule.ports.push_back({0, {1}, 9, true});
  doubling[0].out[0].index = 2;
  lane_of(schedule, 1)[3].in[0].index = 2;
  schedule.programs[0].lanes.push_back(doubling);
  schedule.programs[0].lanes[1][0].after = {{0, 1}};
  CHECK(verify(schedule, 1).ok);
  schedule.programs[0].lanes[1][0].after.clear();
  const Verdict verdict = refuse(schedule, FaultKind::race, 0, 0, 1);
  CHECK_THAT(verdict.fault,
             Contains("read of output chunk 0 of rank 0 at rank 0, lane 1, step 0") && Contains("not ordered"));
}

TEST_CASE("scratch that the next round may overwrite is a race") {
  Schedule schedule = exchange_through_scratch();
  // The reduction moves to a third lane: within the round it waits, but the receiver may be a round ahead.
  for (auto& program : schedule.programs) {
    Lane reduce{program.lanes[1].back()};
    program.lanes[1].pop_back();
    reduce[0].after = {{1, 0}};
    program.lanes.push_back(reduce);
  }
  const Verdict verdict = refuse(schedule, FaultKind::race, 0, 1, 0);
  CHECK_THAT(verdict.fault, Contains("scratch chunk 0") && Contains("from one round to the next"));
}

TEST_CASE("an end of a port that two lanes use is refused") {
  Schedule schedule = build("ring", 4);
  Lane& lane = lane_of(schedule, 1);
  Lane rest(lane.begin() + 3, lane.end());
  lane.resize(3);
  schedule.programs[1].lanes.push_back(rest);
  const Verdict verdict = refuse(schedule, FaultKind::structure, 1, 1, 3 - 3);
  CHECK_THAT(verdict.fault, Contains("port 0") && Contains("lane 0 of the rank uses already"));
}

TEST_CASE("unacknowledged slots are reused only where readers have been heard from") {
  // A ring hears from its right neighbour only after a whole turn, and sends 2 (P - 1) messages before.
  Schedule ring = build("ring", 4);
  ring.ports[2].acknowledged = false;
  const Verdict verdict = refuse(ring, FaultKind::slot_reuse, 2, 0, 0);
  CHECK_THAT(verdict.fault, Contains("port 2") && Contains("rank 3, lane 0, step 5 of the round before"));

  // A broadcast never hears from its readers.
  Schedule broadcast = build("oneshot", 3, 1, Collective::broadcast);
  broadcast.ports[0].acknowledged = false;
  CHECK_THAT(refuse(broadcast, FaultKind::slot_reuse, 0, 0, 0).fault,
             Contains("rank 1, lane 0, step 0 of 2 rounds before"));

  // A tree's up ports are answered by its down ports, but only in another lane.
  Schedule tree = build("tree", 2);
  tree.ports[0].acknowledged = false;
  CHECK(refuse(tree, FaultKind::slot_reuse, 0, 0, 0).fault.size() > 0);

  // A one-shot that publishes and reads in different lanes may publish as often as it likes.
  Schedule oneshot = build("oneshot", 3);
  Lane reduce{oneshot.programs[1].lanes[0].back()};
  oneshot.programs[1].lanes[0].pop_back();
  oneshot.programs[1].lanes.push_back(reduce);
  const Verdict loose = verify(oneshot, 2);
  CHECK(loose.kind == FaultKind::slot_reuse);
  // With a dependency the other way round that holds it back, it may not... until the round after.
  oneshot.programs[1].lanes[1][0].after = {{0, 0}};
  CHECK(verify(oneshot, 2).kind == FaultKind::slot_reuse);
}

TEST_CASE("an in-place hazard is recorded, not refused") {
  // Each rank stores the other's input first, and then sends its own: in place that sends what it has received.
  Schedule schedule;
  schedule.ranks = 2;
  schedule.collective = Collective::all_gather;
  schedule.output_blocks = 2;
  schedule.output_chunks = 2;
  schedule.ports = {{0, {1}, 0, true}, {1, {0}, 0, true}};
  schedule.programs.resize(2);
  schedule.programs[0].lanes = {{{.in = {input(0)}, .out = {to(0)}},
                                 {.in = {from(1)}, .out = {output(1)}},
                                 {.in = {input(0)}, .out = {output(0)}}}};
  schedule.programs[1].lanes = schedule.programs[0].lanes;
  schedule.programs[1].lanes[0] = {{.in = {from(0)}, .out = {output(0)}},
                                   {.in = {input(0)}, .out = {output(1)}},
                                   {.in = {output_of(1)}, .out = {to(1)}}};
  Verdict verdict = verify(schedule, 1);
  INFO(verdict.fault);
  REQUIRE(verdict.ok);
  CHECK(verdict.safe.allows(Transfer::copied, true));  // each rank's input is its own block of the output

  Schedule reduction = pair_of_ranks();
  reduction.scratch_chunks = 1;
  for (int rank = 0; rank < 2; ++rank)
    reduction.programs[static_cast<std::size_t>(rank)].lanes = {{{.in = {input(0)}, .out = {to(rank)}},
                                                                 {.in = {from(1 - rank)}, .out = {output(0)}},
                                                                 {.in = {input(0), output_of(0)}, .out = {output(0)}}}};
  derive_scaling(reduction);
  verdict = verify(reduction, 1);
  INFO(verdict.fault);
  REQUIRE(verdict.ok);
  CHECK_FALSE(verdict.safe.allows(Transfer::copied, true));
  CHECK_THAT(verdict.safe.hazard(Transfer::copied, true),
             Contains("in place") && Contains("output chunk 0 of rank 0") && Contains("rank 0, lane 0, step 2") &&
                 Contains("rank 0, lane 0, step 1") && Contains("overwritten first"));
}

TEST_CASE("lent memory that is overwritten too early is recorded") {
  // Rank 0 stores the result over what it has lent to rank 1 without hearing from it: out of place this is other
  // memory.
  Schedule schedule = pair_of_ranks();
  for (int rank = 0; rank < 2; ++rank)
    schedule.programs[static_cast<std::size_t>(rank)].lanes = {
        {{.in = {input(0)}, .out = {to(rank)}}, {.in = {input(0), from(1 - rank)}, .out = {output(0)}}}};
  derive_scaling(schedule);
  const Verdict verdict = verify(schedule, 1);
  INFO(verdict.fault);
  REQUIRE(verdict.ok);
  CHECK(verdict.safe.allows(Transfer::copied, true));
  CHECK(verdict.safe.allows(Transfer::lent, false));
  CHECK_FALSE(verdict.safe.allows(Transfer::lent, true));
  CHECK_THAT(verdict.safe.hazard(Transfer::lent, true), Contains("With lent messages, in place"));
  CHECK(verdict.safe.allows(Transfer::placed, true));  // no message is merely stored
}

TEST_CASE("placed memory that is still in use is recorded") {
  // Rank 1 sends its result from the chunk into which rank 0 places the next message.
  Schedule schedule = pair_of_ranks();
  schedule.programs[0].lanes = {{{.in = {from(1), input(0)}, .out = {output(0), to(0)}}}};
  schedule.programs[1].lanes = {{{.in = {input(0)}, .out = {to(1)}}, {.in = {from(0)}, .out = {output(0)}}}};
  derive_scaling(schedule);
  Verdict verdict = verify(schedule, 1);
  REQUIRE(verdict.ok);
  CHECK(verdict.safe.allows(Transfer::placed, true));
  // Now rank 1 also copies its input after sending, which nothing orders before rank 0's placing.
  schedule.scratch_chunks = 1;
  Lane& lane = lane_of(schedule, 1);
  lane.insert(lane.begin() + 1, {.in = {input(0)}, .out = {scratch(0)}});
  derive_scaling(schedule);
  verdict = verify(schedule, 1);
  INFO(verdict.fault);
  REQUIRE(verdict.ok);
  CHECK(verdict.safe.allows(Transfer::copied, true));
  CHECK(verdict.safe.allows(Transfer::placed, false));
  CHECK_FALSE(verdict.safe.allows(Transfer::placed, true));
  CHECK_THAT(verdict.safe.hazard(Transfer::placed, true),
             Contains("rank 1, lane 0, step 1") && Contains("rank 0, lane 0, step 0"));
}

TEST_CASE("stale and impossible scaling marks are refused") {
  Schedule schedule = build("ring", 3);
  lane_of(schedule, 1)[2].postscale = false;
  CHECK(refuse(schedule, FaultKind::scaling, 0, 0, 4).fault.find("never post-scaled") != std::string::npos);
  schedule = build("ring", 3);
  lane_of(schedule, 1)[3].postscale = true;
  CHECK_THAT(refuse(schedule, FaultKind::scaling, 1, 0, 3).fault, Contains("finished result"));
  schedule = build("ring", 3);
  lane_of(schedule, 1)[1].in[1].prescale = false;
  CHECK_THAT(refuse(schedule, FaultKind::scaling, 1, 0, 1).fault, Contains("not pre-scaled"));
}

TEST_CASE("every index out of range is named") {
  const auto broken = [](auto change, int rank, int lane, int step, const char* words) {
    Schedule schedule = build("tree", 4);
    change(schedule);
    CHECK_THAT(refuse(schedule, FaultKind::structure, rank, lane, step).fault, Contains(words));
  };
  using S = Schedule&;
  broken([](S s) { s.ranks = 0; }, -1, -1, -1, "has 0 ranks");
  broken([](S s) { s.programs.pop_back(); }, -1, -1, -1, "3 programs for 4 ranks");
  broken([](S s) { s.root = 4; }, -1, -1, -1, "root 4");
  broken([](S s) { s.output_blocks = 2; }, -1, -1, -1, "2 output blocks");
  broken([](S s) { s.output_chunks = 3; }, -1, -1, -1, "2 chunks and the output into 3");
  broken([](S s) { s.input_chunks = s.output_chunks = 0; }, -1, -1, -1, "0 chunks");
  broken([](S s) { s.scratch_chunks = 1; }, -1, -1, -1, "scratch into 1 chunks");
  broken([](S s) { s.ports[1].writer = 4; }, -1, -1, -1, "Port 1 has rank 4 as its writer");
  broken([](S s) { s.ports[1].readers.clear(); }, -1, -1, -1, "Port 1 of rank 1 has no readers");
  broken([](S s) { s.ports[1].readers[0] = -1; }, -1, -1, -1, "Port 1 has rank -1 as a reader");
  broken([](S s) { s.ports[1].readers[0] = s.ports[1].writer; }, -1, -1, -1, "its own writer");
  broken([](S s) { s.ports[1].readers.push_back(s.ports[1].readers[0]); }, -1, -1, -1, "as a reader twice");
  broken([](S s) { s.ports.push_back(s.ports[1]); }, -1, -1, -1, "channel of port 1");
  broken([](S s) { s.ports.push_back({0, {1}, 77, true}); }, -1, -1, -1, "never sent through");
  const auto step = [](S s) -> Step& { return s.programs[0].lanes[1][0]; };
  broken([&](S s) { step(s).chunks = 0; }, 0, 1, 0, "handles 0 chunks");
  broken([&](S s) { step(s).chunks = 3; }, 0, 1, 0, "output chunk 2 does not exist");
  broken([&](S s) { step(s).in[0].index = 99; }, 0, 1, 0, "port 99, which does not exist");
  broken([&](S s) { step(s).in[0].index = -1; }, 0, 1, 0, "port -1, which does not exist");
  broken([&](S s) { step(s).in[0].index = 0; }, 0, 1, 0, "of which the rank is no reader");
  broken([&](S s) { step(s).in.push_back(step(s).in[0]); }, 0, 1, 0, "twice in one step");
  broken([&](S s) { step(s).in = {input(2)}; }, 0, 1, 0, "input chunk 2 does not exist");
  broken([&](S s) { step(s).in = {input(-1)}; }, 0, 1, 0, "input chunk -1 does not exist");
  broken([&](S s) { step(s).in = {input(2147483647)}; }, 0, 1, 0, "does not exist");
  broken([&](S s) { step(s).in = {scratch_of(0)}; }, 0, 1, 0, "scratch chunk 0 does not exist; there are 0");
  broken([&](S s) { step(s).in.clear(); }, 0, 1, 0, "no operand to put there");
  broken([&](S s) { step(s).out[0].index = 2; }, 0, 1, 0, "output chunk 2 does not exist");
  broken([&](S s) { step(s).out[0].buffer = Buffer::input; }, 0, 1, 0, "inputs are only read");
  broken([&](S s) { step(s).out.push_back(step(s).out[0]); }, 0, 1, 0, "twice in one step");
  broken([&](S s) { step(s).out.push_back(to(99)); }, 0, 1, 0, "port 99, which does not exist");
  broken([&](S s) { step(s).out.push_back(to(1)); }, 0, 1, 0, "whose writer is rank 1");
  broken([&](S s) { step(s).out = {to(0), to(0)}; }, 0, 1, 0, "more than one port");
  broken([&](S s) { step(s).after = {{9, 0}}; }, 0, 1, 0, "lane 9, step 0, which does not exist");
  broken([&](S s) { step(s).after = {{0, 1}}; }, 0, 1, 0, "lane 0, step 1, which does not exist");
  broken([&](S s) { step(s).after = {{1, 0}}; }, 0, 1, 0, "itself");
}

TEST_CASE("marks are derived of well-formed schedules only") {
  Schedule schedule = build("ring", 3);
  lane_of(schedule, 1)[1].in[0].index = 77;
  CHECK_THROWS_AS(derive_scaling(schedule), tutti::Error);
}

TEST_CASE("messages of different lengths at their two ends are refused") {
  Schedule schedule = build("halving_doubling", 4);
  lane_of(schedule, 2)[1].chunks = 1;
  const Verdict verdict = refuse(schedule, FaultKind::structure, 2, 0, 1);
  CHECK_THAT(verdict.fault, Contains("message of 1 chunks") && Contains("rank 0, lane 0, step 0 sends 2"));
}

TEST_CASE("contracts say who contributes to what") {
  const auto set = [](const Contract& contract, std::size_t rank, std::size_t chunk) {
    return contract.sets.at(static_cast<std::size_t>(contract.set_of.at(rank).at(chunk)));
  };
  using Set = std::vector<Contribution>;
  CHECK(set(contract_of(build("ring", 3)), 1, 2) == Set{{0, 2}, {1, 2}, {2, 2}});
  CHECK(set(contract_of(build("oneshot", 2, 3, Collective::all_gather)), 0, 4) == Set{{1, 1}});
  const Schedule rooted = find_builder(Collective::broadcast, "tree")->build({.ranks = 4, .lanes = 2, .root = 3});
  CHECK(set(contract_of(rooted), 0, 1) == Set{{3, 1}});
  CHECK(set(contract_of(build("tree", 3, 1, Collective::barrier)), 2, 0) == Set{{0, 0}, {1, 0}, {2, 0}});
  CHECK(contract_of(build("tree", 1, 1, Collective::barrier)).set_of[0][0] == Contract::kUnlisted);
}

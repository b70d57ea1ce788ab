// What each collective asks for, written out by hand, and that the verifier holds rooted and in-place schedules to it.
#include "src/schedule/contract.h"

#include <catch2/catch.hpp>

#include "src/schedule/builders.h"
#include "src/schedule/collectives.h"
#include "src/schedule/verifier.h"

using namespace tutti::schedule;
using tutti::Collective;

namespace {

using Set = std::vector<Contribution>;

Schedule built(Collective collective, const char* name, const Shape& shape) {
  const Builder* builder = find_builder(collective, name);
  REQUIRE(builder != nullptr);
  return builder->build(shape);
}

// What output chunk `chunk` of a rank must hold; empty: it must not be written.
Set wanted(const Schedule& schedule, int rank, int chunk) {
  const Contract contract = contract_of(schedule);
  const int set = contract.set_of.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(chunk));
  return set == Contract::kUnlisted ? Set{} : contract.sets.at(static_cast<std::size_t>(set));
}

void check_refused(const Schedule& schedule, FaultKind kind, const std::string& text) {
  const Verdict verdict = verify(schedule, 2);
  CHECK(verdict.kind == kind);
  CHECK_THAT(verdict.fault, Catch::Contains(text));
}

Step& step(Schedule& schedule, std::size_t rank, std::size_t lane, std::size_t index) {
  return schedule.programs.at(rank).lanes.at(lane).at(index);
}

}  // namespace

TEST_CASE("contracts of the collectives with a root or a block for every rank") {
  const Shape shape{.ranks = 3, .lanes = 2, .root = 1};
  const Schedule reduce = built(Collective::reduce, "tree", shape);
  CHECK(wanted(reduce, 1, 1) == Set{{0, 1}, {1, 1}, {2, 1}});
  CHECK(wanted(reduce, 0, 1).empty());
  CHECK(wanted(reduce, 2, 0).empty());
  const Schedule reduce_scatter = built(Collective::reduce_scatter, "ring", shape);
  CHECK(wanted(reduce_scatter, 0, 1) == Set{{0, 1}, {1, 1}, {2, 1}});
  CHECK(wanted(reduce_scatter, 2, 1) == Set{{0, 5}, {1, 5}, {2, 5}});
  const Schedule all_to_all = built(Collective::all_to_all, "oneshot", shape);
  CHECK(wanted(all_to_all, 0, 0) == Set{{0, 0}});
  CHECK(wanted(all_to_all, 0, 3) == Set{{1, 1}});
  CHECK(wanted(all_to_all, 2, 0) == Set{{0, 4}});
  const Schedule gather = built(Collective::gather, "oneshot", shape);
  CHECK(wanted(gather, 1, 5) == Set{{2, 1}});
  CHECK(wanted(gather, 0, 5).empty());
  const Schedule scatter = built(Collective::scatter, "oneshot", shape);
  CHECK(wanted(scatter, 0, 1) == Set{{1, 1}});
  CHECK(wanted(scatter, 2, 0) == Set{{1, 4}});
}

TEST_CASE("in place, blocks are the same memory as NCCL has it") {
  CHECK(in_place_chunk(Collective::all_reduce, 2, 3, 1) == 1);
  CHECK(in_place_chunk(Collective::reduce, 2, 3, 1) == 1);
  CHECK(in_place_chunk(Collective::broadcast, 2, 3, 1) == 1);
  CHECK(in_place_chunk(Collective::all_gather, 2, 3, 1) == 7);
  CHECK(in_place_chunk(Collective::gather, 2, 3, 1) == 7);
  for (const Collective collective : {Collective::reduce_scatter, Collective::scatter}) {
    CHECK(in_place_chunk(collective, 2, 3, 7) == 1);
    CHECK(in_place_chunk(collective, 2, 3, 5) == -1);
    CHECK(in_place_chunk(collective, 2, 3, 9) == -1);
  }
  CHECK(in_place_chunk(Collective::all_to_all, 2, 3, 7) == -1);
}

TEST_CASE("who has no buffer may not touch one") {
  const Shape shape{.ranks = 3, .root = 1};
  Schedule reduce = built(Collective::reduce, "oneshot", shape);
  step(reduce, 0, 0, 0).out.push_back(Destination::local(Buffer::output, 0));
  check_refused(reduce, FaultKind::structure, "output chunk 0 does not exist; there are 0");
  Schedule gather = built(Collective::gather, "oneshot", shape);
  step(gather, 2, 0, 0).out.push_back(Destination::local(Buffer::output, 2));
  check_refused(gather, FaultKind::structure, "output chunk 2 does not exist; there are 0");
  Schedule scatter = built(Collective::scatter, "oneshot", shape);
  step(scatter, 2, 0, 0).in = {Operand::local(Buffer::input, 2)};
  check_refused(scatter, FaultKind::structure, "input chunk 2 does not exist; there are 0");
  Schedule broadcast = built(Collective::broadcast, "chain", shape);
  step(broadcast, 0, 0, 0).in = {Operand::local(Buffer::input, 0)};
  check_refused(broadcast, FaultKind::structure, "input chunk 0 does not exist; there are 0");
}

TEST_CASE("another rank's block is refused") {
  const Shape shape{.ranks = 3, .root = 1};
  Schedule all_to_all = built(Collective::all_to_all, "oneshot", shape);
  step(all_to_all, 0, 0, 0).in = {Operand::local(Buffer::input, 2)};  // goes to rank 1
  check_refused(all_to_all, FaultKind::contract, "input chunk 1 of rank 0");
  Schedule gather = built(Collective::gather, "oneshot", shape);
  std::swap(step(gather, 1, 0, 1).out, step(gather, 1, 0, 2).out);
  check_refused(gather, FaultKind::contract, "Output chunk 0 of rank 1 lacks the contribution");
  Schedule reduce_scatter = built(Collective::reduce_scatter, "oneshot", shape);
  step(reduce_scatter, 0, 0, 2).in[0] = Operand::local(Buffer::input, 2);  // of rank 2's block
  derive_scaling(reduce_scatter);
  check_refused(reduce_scatter, FaultKind::contract, "Output chunk 0 of rank 0 lacks the contribution");
}

TEST_CASE("what would be overwritten in place too early is named") {
  // A reduce-scatter that stores a partial result before it has sent its input on.
  Schedule ring = built(Collective::reduce_scatter, "ring", {.ranks = 2});
  Lane& lane = ring.programs[0].lanes[0];
  lane.insert(lane.begin(), {.in = {Operand::local(Buffer::input, 1)}, .out = {Destination::local(Buffer::output, 0)}});
  derive_scaling(ring);
  const Verdict verdict = verify(ring, 2);
  INFO(verdict.fault);
  REQUIRE(verdict.ok);
  CHECK_FALSE(verdict.safe.allows(Transfer::copied, true));
  CHECK_THAT(verdict.safe.hazard(Transfer::copied, true), Catch::Contains("in place") && Catch::Contains("of rank 0"));
  CHECK(verdict.safe.allows(Transfer::copied, false));
}

TEST_CASE("scratch has as many chunks as its blocks") {
  Schedule halving = built(Collective::reduce_scatter, "halving", {.ranks = 4});
  halving.scratch_blocks = 5;
  check_refused(halving, FaultKind::structure, "has 5 scratch blocks; valid are 1 to 4");
  halving.scratch_blocks = 3;
  check_refused(halving, FaultKind::structure, "scratch into 4 chunks; valid are none or 1 for each of its 3 blocks");
}

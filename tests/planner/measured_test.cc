// Plans by a measured profile, and by lanes and slots that the user forces.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "src/planner/explain.h"
#include "src/planner/planner.h"
#include "src/planner/size_class.h"
#include "src/runtime/facts.h"
#include "tests/planner/planner_support.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::planner;

namespace {

std::vector<Candidate> candidates(Planner& planner, std::size_t bytes) {
  return planner.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, bytes / 4);
}

Candidate candidate(Planner& planner, const std::string& algorithm, std::size_t bytes) {
  for (Candidate& found : candidates(planner, bytes))
    if (found.algorithm == algorithm) return found;
  FAIL("no candidate " << algorithm);
  return {};
}

// tree is best up to 4 KiB, ring from 64 KiB on.
Profile made_up(int ranks, int usable_cores = 0) {
  Profile profile;
  profile.machine = {"h", "made-up CPU", 4, 1, "0"};
  profile.usable_cores = usable_cores;
  profile.tables = {
      {"all_reduce",
       "tree",
       ranks,
       {{64, 0.001, 1, {8, 1024}}, {4096, 0.002, 1, {4, 8192}}, {65536, 900, 1, {4, 65536}}}},
      {"all_reduce",
       "ring",
       ranks,
       {{64, 0.5, 1, {8, 1024}}, {4096, 0.5, 1, {4, 8192}}, {65536, 1, 2, {2, 131072}}, {1 << 20, 2, 2, {2, 524288}}}},
      {"all_reduce", "oneshot", ranks, {{64, 7000, 1, {8, 1024}}}},
      {"all_reduce", "twoshot", ranks, {{64, 7000, 1, {8, 1024}}}},
      {"all_reduce", "halving_doubling", ranks, {{64, 7000, 1, {8, 1024}}}}};
  return profile;
}

}  // namespace

TEST_CASE("the choice follows the profile: algorithm, lanes, slots and time") {
  for (const int ranks : {2, 4, 7}) {
    World world = world_of(ranks);
    world.profile = made_up(ranks);
    Planner planner(world);
    CAPTURE(ranks);
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{1000}, std::size_t{4096}}) {
      CHECK(all_reduce(planner, bytes).schedule->name == "tree");
      CHECK(all_reduce(planner, bytes).runner_up == "ring");
    }
    CHECK(all_reduce(planner, 4096).predicted_us == 0.002);
    CHECK(all_reduce(planner, 4096).slots == 4);
    CHECK(all_reduce(planner, 4096).slot_bytes == 8192);
    CHECK(all_reduce(planner, 65536).schedule->name == "ring");
    CHECK(all_reduce(planner, 65536).slots == 2);
    CHECK(all_reduce(planner, 65536).slot_bytes == 131072);
    CHECK(all_reduce(planner, 256 << 10).predicted_us == Approx(std::sqrt(2.0)));
    CHECK(all_reduce(planner, 1 << 20).slot_bytes == 524288);
    CHECK(candidate(planner, "ring", 65536).lanes == 2);
    for (const Candidate& found : candidates(planner, 65536)) {
      CHECK(found.basis == Basis::measured);
      CHECK(found.measured_ranks == ranks);
    }
    // Other collectives are not measured.
    CHECK(planner.candidates(Collective::broadcast, DataType::int8, ReduceOp::sum, 0, 100)[0].basis == Basis::model);
  }
}

TEST_CASE("what was not measured is left to the model") {
  World world = world_of(4), bare = world_of(4);
  world.profile = made_up(4);
  std::erase_if(world.profile.tables, [](const Table& table) { return table.algorithm != "ring"; });
  Planner planner(world), model(bare);
  CHECK(candidate(planner, "ring", 4096).basis == Basis::measured);
  for (const char* name : {"tree", "oneshot", "twoshot", "halving_doubling"}) {
    CHECK(candidate(planner, name, 4096).basis == Basis::model);
    CHECK(candidate(planner, name, 4096).predicted_us == candidate(model, name, 4096).predicted_us);
  }
  // Neither is anything between hosts.
  world.host_of_rank = {0, 0, 1, 1};
  Planner far(world);
  CHECK(candidate(far, "ring", 4096).basis == Basis::model);
}

TEST_CASE("other numbers of ranks: the nearest, scaled as the model says") {
  World world = world_of(8, 2);
  world.profile = made_up(4, 2);
  Planner planner(world);
  World bare8 = world_of(8, 2), bare4 = world_of(4, 2);
  bare8.forced_algorithm = bare4.forced_algorithm = "tree/1/4x8K";
  Planner eight(bare8), four(bare4);
  const Candidate found = candidate(planner, "tree", 4096);
  CHECK(found.basis == Basis::scaled);
  CHECK(found.measured_ranks == 4);
  CHECK(found.predicted_us ==
        Approx(0.002 * all_reduce(eight, 4096).predicted_us / all_reduce(four, 4096).predicted_us));
  CHECK(all_reduce(planner, 4096).schedule->name == "tree");
  // The same ranks on fewer cores are scaled as well.
  World fewer = world_of(4, 1);
  fewer.profile = made_up(4, 4);
  Planner shared(fewer);
  CHECK(candidate(shared, "tree", 4096).basis == Basis::scaled);
  CHECK(candidate(shared, "tree", 4096).predicted_us > 0.004);
}

TEST_CASE("slots of a profile that the buffer limit has no room for are replaced") {
  World world = world_of(4);
  world.profile = made_up(4);
  world.buffer_limit = 1 << 20;
  Planner planner(world);
  const Candidate ring = candidate(planner, "ring", 1 << 20);
  CHECK(ring.predicted_us == 2);
  CHECK(ring.slots * ring.slot_bytes < (1 << 18));
}

TEST_CASE("ranks with different profiles agree: rank 0's counts") {
  std::vector<runtime::Facts> facts(3);
  for (runtime::Facts& rank : facts) rank.cores = {0};
  facts[0].profile = to_text(made_up(3));
  Profile other = made_up(3);
  std::swap(other.tables[0].algorithm, other.tables[1].algorithm);
  facts[1].profile = to_text(other);
  facts[2].profile = "nonsense that nobody reads";
  std::vector<runtime::Facts> received;
  for (int rank = 0; rank < 3; ++rank)
    received.push_back(runtime::facts_from_blob(runtime::to_blob(facts[static_cast<std::size_t>(rank)]), rank));
  World world = runtime::world_of(received);
  CHECK(world.profile == made_up(3));
  facts[0].profile = "";
  CHECK(runtime::world_of(facts).profile == Profile{});
}

TEST_CASE("lanes and slots can be forced") {
  Planner planner(world_of(4));
  planner.force("ring/2/4x128K, tree");
  CHECK(candidate(planner, "ring", 1 << 20).lanes == 2);
  planner.force("RING/2/4x128k");
  CHECK(all_reduce(planner, 1 << 20).schedule->name == "ring");
  CHECK(all_reduce(planner, 1 << 20).slots == 4);
  CHECK(all_reduce(planner, 1 << 20).slot_bytes == 128 << 10);
  const std::uint64_t two_lanes = all_reduce(planner, 1 << 20).id;
  planner.force("ring/1/4x128K");
  CHECK(all_reduce(planner, 1 << 20).id != two_lanes);
  planner.force("ring/1/2x128K");
  CHECK(all_reduce(planner, 1 << 20).slots == 2);
  planner.force("ring/2");
  CHECK(candidate(planner, "ring", 64).lanes == 2);
  // Forced lanes and slots stand above a profile's.
  World world = world_of(4);
  world.profile = made_up(4);
  Planner measured(world);
  measured.force("ring/1/4x64K");
  CHECK(candidate(measured, "ring", 65536).basis == Basis::model);
  CHECK(all_reduce(measured, 65536).slot_bytes == 64 << 10);
  measured.force("ring");
  CHECK(candidate(measured, "ring", 65536).basis == Basis::measured);
}

TEST_CASE("lanes and slots that make no sense are refused and change nothing") {
  Planner planner(world_of(4));
  planner.force("tree");
  for (const char* bad :
       {"ring/",        "ring/0",         "ring/3",       "ring/1/",        "ring/1/4",
        "ring/1/4x",    "ring/1/x64K",    "ring/1/0x64K", "ring/1/4x100",   "ring/1/4x0",
        "ring/1/4x32M", "ring/1/100x64K", "ring/-1",      "ring/1/4x64K/2", "ring//4x64K",
        "^ring/1",      "ring/1,ring/2",  "/1",           "ring/1/4x1e9",   "ring/1/4x18446744073709551616"}) {
    INFO(bad);
    CHECK_THAT(message_of([&] { planner.force(bad); }), Catch::Contains("TUTTI_ALGO") && Catch::Contains("valid"));
    CHECK(all_reduce(planner, 64).schedule->name == "tree");
  }
  // A message that slots cannot hold even in slices, and slots that the limit cannot hold.
  planner.force("oneshot/1/1x64K");
  CHECK_THAT(message_of([&] { all_reduce(planner, 64); }), Catch::Contains("oneshot/1/1x64K"));
  planner.force("ring/1/64x16M");
  CHECK_THAT(message_of([&] { all_reduce(planner, 64); }), Catch::Contains("TUTTI_BUFFER_LIMIT"));
}

TEST_CASE("every variant that is worth measuring can be forced") {
  for (const int ranks : {2, 4, 16}) {
    Planner planner(world_of(ranks)), sharing(world_of(ranks, 1));
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{4096}, std::size_t{65536}, std::size_t{16} << 20}) {
      const std::vector<Variant> list = planner.variants(Collective::all_reduce, DataType::float32, bytes / 4);
      CHECK(list == sharing.variants(Collective::all_reduce, DataType::float32, bytes / 4));
      std::set<std::string> names, algorithms;
      for (const Variant& variant : list) {
        names.insert(to_text(variant)), algorithms.insert(variant.algorithm);
        CAPTURE(ranks, bytes, to_text(variant));
        planner.force(to_text(variant));
        const Plan& plan = all_reduce(planner, bytes);
        CHECK(plan.schedule->name == variant.algorithm);
        CHECK(Geometry{plan.slots, plan.slot_bytes} == variant.geometry);
      }
      CHECK(names.size() == list.size());
      CHECK(algorithms.size() == 5);
      if (bytes > 8 << 20 && ranks <= 4) CHECK(list.size() > 70);
      planner.force("");
    }
  }
}

TEST_CASE("explain says what is measured, and by which profile") {
  World world = world_of(4);
  world.profile = made_up(4);
  world.profile.file = "/some/profile.json";
  Planner planner(world);
  const std::string text = explain(planner, {.count = 1024});
  CHECK_THAT(text, Catch::Contains("  measured\n") && Catch::Contains("/some/profile.json, measured on made-up CPU"));
  World more = world_of(6);
  more.profile = world.profile;
  Planner six(more);
  CHECK_THAT(explain(six, {.count = 1024}), Catch::Contains("measured on 4 ranks, scaled"));
  Planner bare(world_of(4));
  CHECK_THAT(explain(bare, {.count = 1024}), Catch::Contains("built-in costs") && Catch::Contains("tutti tune"));
}

#include "src/planner/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "src/planner/explain.h"
#include "src/planner/forced.h"
#include "src/planner/geometry.h"
#include "src/planner/size_class.h"
#include "src/schedule/collectives.h"
#include "src/schedule/verifier.h"
#include "tests/planner/planner_support.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::planner;

namespace {

constexpr std::size_t kSizes[] = {0, 4, 64, 1000, 4096, 65536, 1 << 20, std::size_t{1} << 26, std::size_t{1} << 33};

void check_mentions(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    INFO(text);
    CHECK(text.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("plans are the same for equal worlds, whatever was asked before") {
  for (const int ranks : {1, 2, 3, 8, 13}) {
    Planner forwards(world_of(ranks, 2)), backwards(world_of(ranks, 2));
    std::vector<std::uint64_t> ids;
    for (const std::size_t bytes : kSizes) ids.push_back(all_reduce(forwards, bytes).id);
    for (std::size_t i = std::size(kSizes); i-- > 0;) {
      CAPTURE(ranks, kSizes[i]);
      const Plan& plan = all_reduce(backwards, kSizes[i]);
      CHECK(plan.id == ids[i]);
      CHECK(plan.predicted_us == all_reduce(forwards, kSizes[i]).predicted_us);
    }
  }
}

TEST_CASE("every count of a class has the very same plan") {
  Planner planner(world_of(4));
  for (int size_class = 1; size_class < 60; ++size_class) {
    const std::size_t first = class_border(size_class - 1) / 4 + 1, last = class_border(size_class) / 4;
    const auto plan = [&](std::size_t count) {
      return &planner.plan(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count);
    };
    CHECK(plan(first) == plan(last));
    CHECK(plan(first) != plan(first - 1));
    // Types of equal size share plans; what fits at the border fits below.
    CHECK(plan(last) == &planner.plan(Collective::all_reduce, DataType::int32, ReduceOp::max, 0, last));
    CHECK(plan(last)->rounds(first, DataType::float32) <= plan(last)->rounds(last, DataType::float32));
  }
}

TEST_CASE("references stay valid") {
  Planner planner(world_of(4));
  const Plan& first = all_reduce(planner, 8);
  const std::uint64_t id = first.id;
  for (std::size_t bytes = 8; bytes < std::size_t{1} << 40; bytes = bytes * 5 / 4 + 1) all_reduce(planner, bytes);
  planner.force("tree");
  all_reduce(planner, 8);
  planner.force("");
  CHECK(first.id == id);
  CHECK(&all_reduce(planner, 8) == &first);
}

TEST_CASE("every candidate is a schedule that the verifier accepts with its slots") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    Planner planner(world_of(ranks));
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast, Collective::all_gather,
                                        Collective::barrier, Collective::reduce, Collective::reduce_scatter,
                                        Collective::all_to_all, Collective::gather, Collective::scatter})
      for (const std::size_t bytes : {std::size_t{64}, std::size_t{100000}, std::size_t{1} << 24}) {
        const std::size_t count = collective == Collective::barrier ? 0 : bytes / 4;
        const auto candidates = planner.candidates(collective, DataType::float32, ReduceOp::sum, ranks - 1, count);
        REQUIRE(candidates.size() == planner.algorithms(collective).size());
        for (std::size_t i = 0; i < candidates.size(); ++i) {
          CAPTURE(ranks, name_of(collective), bytes, candidates[i].algorithm, candidates[i].slots);
          const auto verdict = schedule::verify(*candidates[i].schedule, static_cast<int>(candidates[i].slots));
          CHECK(verdict.fault == "");
          CHECK(verdict.ok);
          CHECK(candidates[i].slot_bytes % 64 == 0);
          if (i > 0) CHECK(candidates[i - 1].predicted_us <= candidates[i].predicted_us);
        }
        const Plan& plan = planner.plan(collective, DataType::float32, ReduceOp::sum, ranks - 1, count);
        CHECK(plan.schedule->name == candidates.front().algorithm);
        CHECK(plan.predicted_us == candidates.front().predicted_us);
        CHECK(plan.runner_up == (candidates.size() > 1 ? candidates[1].algorithm : ""));
        CHECK(plan.schedule->root == (schedule::traits_of(collective).rooted() ? ranks - 1 : 0));
      }
  }
}

TEST_CASE("slots obey the buffer limit, also on 64 ranks, whatever algorithm is forced") {
  for (const std::size_t limit : {std::size_t{1} << 16, std::size_t{1} << 20, std::size_t{64} << 20}) {
    World world = world_of(64, 2);
    world.buffer_limit = limit;
    Planner planner(world);
    for (const std::string& name : planner.algorithms(Collective::all_reduce)) {
      planner.force(name);
      for (const std::size_t bytes : kSizes) {
        CAPTURE(limit, name, bytes);
        const auto candidates =
            planner.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, bytes / 4);
        const bool fits =
            std::any_of(candidates.begin(), candidates.end(), [&](auto& c) { return c.algorithm == name; });
        if (!fits) {
          check_mentions(message_of([&] { all_reduce(planner, bytes); }), {"TUTTI_BUFFER_LIMIT", name.c_str()});
          continue;
        }
        const Plan& plan = all_reduce(planner, bytes);
        CHECK(plan.schedule->name == name);
        CHECK(plan.slots >= 2);
        CHECK(plan.slot_bytes >= 64);
        // Counted here from the ports alone.
        std::size_t most = 0;
        for (int rank = 0; rank < 64; ++rank) {
          std::size_t used = 0;
          for (const auto& port : plan.schedule->ports)
            if (port.writer == rank) used += plan.slots * (64 + plan.slot_bytes) + 128 * port.readers.size();
          most = std::max(most, used);
        }
        CHECK(most <= limit);
      }
    }
    if (limit == std::size_t{64} << 20)
      CHECK(planner.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 1 << 28).size() == 5);
  }
}

TEST_CASE("a limit that nothing fits is an error that names the variable") {
  World world = world_of(8);
  world.buffer_limit = 100;
  Planner planner(world);
  check_mentions(message_of([&] { all_reduce(planner, 1 << 20); }),
                 {"TUTTI_BUFFER_LIMIT", "100", "all_reduce", "8 ranks"});
}

TEST_CASE("few distinct slot geometries") {
  Planner planner(world_of(4));
  std::set<std::pair<std::uint32_t, std::uint32_t>> geometries;
  for (int size_class = 0; size_class < 60; ++size_class) {
    const Plan& plan = all_reduce(planner, class_border(size_class));
    geometries.insert({plan.slots, plan.slot_bytes});
  }
  CHECK(geometries.size() <= 4);
}

TEST_CASE("small calls take the shortest path, large ones the fewest bytes") {
  Planner planner(world_of(8));
  CHECK(all_reduce(planner, 8).schedule->name == "oneshot");
  CHECK(all_reduce(planner, std::size_t{1} << 26).schedule->name != "oneshot");
  // Between hosts on a slow link the best algorithm for large calls sends each byte fewest times.
  World far = world_of(8);
  far.host_of_rank = {0, 1, 2, 3, 4, 5, 6, 7};
  Planner remote(far);
  CHECK(all_reduce(remote, std::size_t{1} << 26).predicted_us > all_reduce(planner, std::size_t{1} << 26).predicted_us);
  const auto candidates =
      remote.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, std::size_t{1} << 24);
  CHECK(candidates.back().algorithm == "oneshot");
}

TEST_CASE("a plan is the best of all candidates, and knows the next, though not all are built for it") {
  for (const int ranks : {1, 2, 5, 16, 64})
    for (const int cores : {0, 2})
      for (const char* forced : {"", "ring", "tree,ring", "^oneshot", "twoshot/2"})
        for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{1} << 20}) {
          CAPTURE(ranks, cores, forced, bytes);
          Planner planner(world_of(ranks, cores)), complete(world_of(ranks, cores));
          planner.force(forced);
          complete.force(forced);
          const auto all = complete.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, bytes / 4);
          const Forced usable = parse_forced(forced, complete.algorithms(Collective::all_reduce));
          const auto best =
              std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return usable.contains(c.algorithm); });
          REQUIRE(best != all.end());
          const auto next =
              std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.algorithm != best->algorithm; });
          const Plan& plan = all_reduce(planner, bytes);
          CHECK(plan.schedule->name == best->algorithm);
          CHECK(plan.predicted_us == best->predicted_us);
          CHECK(plan.runner_up == next->algorithm);
          CHECK(plan.runner_up_us == next->predicted_us);
        }
}

TEST_CASE("algorithms that cannot be the best or the next are not built") {
  static int built = 0;
  static constexpr auto ring = [](const schedule::Shape& shape) {
    ++built;
    return schedule::build_ring_all_reduce(shape);
  };
  std::vector<schedule::Builder> builders(schedule::builders().begin(), schedule::builders().end());
  REQUIRE(builders[0].name == "ring");
  builders[0].build = ring;
  built = 0;
  Planner planner(world_of(64, 2), builders);
  CHECK(all_reduce(planner, 1024).schedule->name == "oneshot");
  CHECK(built == 0);
  planner.force("ring");
  CHECK(all_reduce(planner, 1024).schedule->name == "ring");
  CHECK(built == 1);
}

TEST_CASE("ranks that share cores cost more") {
  // Less than four times for large calls: ranks of one core find in its cache what one of them has fetched.
  Planner own(world_of(8, 8)), shared(world_of(8, 2));
  for (const std::size_t bytes : kSizes)
    CHECK(all_reduce(shared, bytes).predicted_us > 1.8 * all_reduce(own, bytes).predicted_us);
}

TEST_CASE("ranks that share cores take fewer and larger rounds, in one lane") {
  Planner own(world_of(4, 4)), shared(world_of(4, 2));
  for (int size_class = 0; size_class < 40; ++size_class) {
    const std::size_t bytes = class_border(size_class);
    const Plan &alone = all_reduce(own, bytes), &together = all_reduce(shared, bytes);
    CAPTURE(bytes);
    if (together.schedule->name == alone.schedule->name)
      CHECK(together.rounds(bytes / 4, DataType::float32) <= alone.rounds(bytes / 4, DataType::float32));
    for (const Candidate& candidate :
         shared.candidates(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, bytes / 4))
      CHECK(candidate.lanes == 1);
  }
  // The choice for small calls is that of measurements on two cores: one round of messages is worth its bytes.
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4} << 10, std::size_t{32} << 10})
    CHECK(all_reduce(shared, bytes).schedule->name == "oneshot");
  CHECK(all_reduce(shared, std::size_t{128} << 10).schedule->name == "twoshot");
}

TEST_CASE("forced names") {
  Planner planner(world_of(4));
  for (const std::string& name : planner.algorithms(Collective::all_reduce)) {
    planner.force(name);
    for (const std::size_t bytes : kSizes) CHECK(all_reduce(planner, bytes).schedule->name == name);
  }
  planner.force(" TREE , Ring");
  for (const std::size_t bytes : kSizes) {
    const std::string name = all_reduce(planner, bytes).schedule->name;
    CHECK((name == "tree" || name == "ring"));
  }
  planner.force("^oneshot");
  CHECK(all_reduce(planner, 8).schedule->name != "oneshot");
  // An algorithm that a collective does not have leaves the choice to the planner.
  planner.force("halving_doubling");
  Planner free(world_of(4));
  CHECK(planner.plan(Collective::broadcast, DataType::int8, ReduceOp::sum, 1, 10).id ==
        free.plan(Collective::broadcast, DataType::int8, ReduceOp::sum, 1, 10).id);
  planner.force("");
  CHECK(all_reduce(planner, 8).id == all_reduce(free, 8).id);
}

TEST_CASE("unknown names are errors that list the valid ones and change nothing") {
  Planner planner(world_of(4));
  planner.force("tree");
  for (const char* name : {"rin", "ringg", "foo", "ring,", ",", "ring;tree", "^", "^foo", " ", "ring,,tree", "\xff\xfe",
                           "^ring,tree,oneshot,twoshot,halving_doubling,chain,halving,doubling"}) {
    check_mentions(message_of([&] { planner.force(name); }),
                   {"TUTTI_ALGO", "ring", "tree", "oneshot", "twoshot", "halving_doubling"});
    CHECK(all_reduce(planner, 8).schedule->name == "tree");
  }
  CHECK(message_of([&] { planner.force(std::string(10000, 'A')); }).size() < 400);
  World world = world_of(4);
  world.forced_algorithm = "tre";
  check_mentions(message_of([&] { Planner bad(world); }), {"'tre'"});
}

TEST_CASE("contradictory worlds and arguments are refused") {
  message_of([] { Planner bad(world_of(0)); });
  World world = world_of(3);
  world.host_of_rank = {0, 0};
  check_mentions(message_of([&] { Planner bad(world); }), {"host_of_rank"});
  world = world_of(3);
  world.order = {0, 1, 1};
  check_mentions(message_of([&] { Planner bad(world); }), {"order"});
  Planner planner(world_of(3));
  message_of([&] { planner.plan(Collective::broadcast, DataType::int8, ReduceOp::sum, 3, 1); });
  message_of([&] { planner.plan(Collective::broadcast, DataType::int8, ReduceOp::sum, -1, 1); });
  message_of([&] { planner.plan(Collective::all_reduce, DataType::float64, ReduceOp::sum, 0, ~std::size_t{0}); });
}

TEST_CASE("explain names what is chosen, what is next and why") {
  Planner planner(world_of(8));
  const Plan& plan = all_reduce(planner, 1 << 20);
  const std::string text = explain(planner, {.count = (1 << 20) / 4});
  check_mentions(text, {("chosen:    " + plan.schedule->name).c_str(), ("runner-up: " + plan.runner_up).c_str(),
                        "moving the bytes", "1 MiB", "8 ranks"});
  for (const std::string& name : planner.algorithms(Collective::all_reduce)) check_mentions(text, {name.c_str()});
  check_mentions(explain(planner, {.count = 1}), {"latency"});
}

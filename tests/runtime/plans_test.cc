// Ranks that are threads of one process plan once between them, and come to what each would have planned alone.
#include "src/runtime/plans.h"

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "src/runtime/engine.h"
#include "tests/runtime/ranks.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

planner::World world_of(int ranks, int cores) {
  planner::World world;
  world.ranks = ranks;
  world.cores_per_host = cores;
  return world;
}

const planner::Plan& all_reduce(Plans& plans, std::size_t count) {
  return plans.plan(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count);
}

void check_equal(const planner::Plan& a, const planner::Plan& b) {
  CHECK(a.id == b.id);
  CHECK(a.schedule->name == b.schedule->name);
  CHECK(a.slots == b.slots);
  CHECK(a.slot_bytes == b.slot_bytes);
  CHECK(a.predicted_us == b.predicted_us);
  CHECK(a.runner_up == b.runner_up);
  CHECK(a.runner_up_us == b.runner_up_us);
}

// Builders that count, and that can be held up. They are function pointers, so what they share is static.
struct Counting {
  static inline std::atomic<int> built{0};
  static inline std::atomic<bool> held{false}, reached{false};
  static schedule::Schedule ring(const schedule::Shape& shape) {
    ++built;
    reached = true;
    while (held) std::this_thread::yield();
    return schedule::build_ring_all_reduce(shape);
  }
  static schedule::Schedule tree(const schedule::Shape& shape) {
    ++built;
    return schedule::build_tree_all_reduce(shape);
  }
  static inline const schedule::Builder builders[] = {
      {"ring", Collective::all_reduce, ring, 2, false, "", schedule::builders()[0].cost},
      {"tree", Collective::all_reduce, tree, 1, false, "", schedule::builders()[1].cost}};
};

}  // namespace

TEST_CASE("sixteen threads build each schedule once and share the plan") {
  constexpr int kRanks = 16;
  Counting::built = 0;
  const auto shared = std::make_shared<SharedPlanner>(world_of(kRanks, 2), Counting::builders);
  std::vector<const planner::Plan*> small(kRanks), large(kRanks);
  {
    std::barrier start(kRanks);
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        Plans plans(shared);
        start.arrive_and_wait();
        small[rank] = &all_reduce(plans, 256);
        large[rank] = &all_reduce(plans, 1 << 20);
      });
  }
  CHECK(Counting::built == 2);  // ring and tree, in one lane each: ranks that share cores do not try two
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    CHECK(small[rank] == small[0]);
    CHECK(large[rank] == large[0]);
  }
  CHECK(small[0] != large[0]);
}

TEST_CASE("shared plans are those that each rank would make alone") {
  for (const int cores : {0, 2}) {
    const auto shared = std::make_shared<SharedPlanner>(world_of(8, cores));
    Plans first(shared), second(shared);
    second.force("ring,tree");
    planner::Planner free(world_of(8, cores)), bound(world_of(8, cores));
    bound.force("ring,tree");
    for (const std::size_t count : {1, 300, 20'000, 1 << 20})  // by turns, so that what is forced changes each time
      for (int again = 0; again < 2; ++again) {
        CAPTURE(cores, count);
        check_equal(all_reduce(first, count),
                    free.plan(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count));
        check_equal(all_reduce(second, count),
                    bound.plan(Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count));
      }
    CHECK_THROWS_AS(second.force("rink"), Error);
    CHECK(all_reduce(second, 1).schedule->name != "oneshot");  // as before
    second.force("oneshot");
    CHECK(all_reduce(second, 1 << 20).schedule->name == "oneshot");
    CHECK_THROWS_AS(first.plan(Collective::broadcast, DataType::int8, ReduceOp::sum, 8, 1), Error);
    CHECK_THROWS_AS(all_reduce(first, std::size_t{1} << 62), Error);
  }
}

TEST_CASE("who waits for another thread's planning may give up, and the planning goes on") {
  Counting::held = true;
  Counting::reached = false;
  const auto shared = std::make_shared<SharedPlanner>(world_of(4, 0), Counting::builders);
  auto planning = std::async(std::launch::async, [&] {
    Plans plans(shared);
    return &all_reduce(plans, 256);
  });
  while (!Counting::reached) std::this_thread::yield();
  Plans impatient(shared);
  int looks = 0;
  impatient.set_patience([&](std::chrono::steady_clock::duration) {
    if (++looks == 2) throw Error(ErrorCode::aborted, "enough");
  });
  CHECK_THROWS_WITH(all_reduce(impatient, 256), "enough");
  CHECK(looks == 2);
  Counting::held = false;
  const planner::Plan* const made = planning.get();
  CHECK(&all_reduce(impatient, 256) == made);
}

TEST_CASE("what fails to plan for one thread leaves the planner free for the next") {
  planner::World tight = world_of(4, 0);
  tight.buffer_limit = 64;
  const auto shared = std::make_shared<SharedPlanner>(tight);
  Plans first(shared), second(shared);
  CHECK_THROWS_AS(all_reduce(first, 256), Error);
  CHECK_THROWS_AS(all_reduce(second, 256), Error);
}

TEST_CASE("ranks of one process share a planner, and nothing of it outlives them") {
  const auto engine = Engine::acquire();
  {
    const auto one = engine->planner_for(world_of(5, 2)), same = engine->planner_for(world_of(5, 2));
    CHECK(one == same);
    CHECK(one != engine->planner_for(world_of(6, 2)));
  }
  CHECK(engine->planners() == 0);
  std::atomic<int> wrong{0};  // Catch's assertions are for one thread
  test::on_threads(16, [&](Communicator& world) {
    std::vector<int> data(300, world.rank());
    world.all_reduce(std::span(data));
    wrong += data != std::vector<int>(300, 16 * 15 / 2);
    world.barrier();
    wrong += engine->planners() != 1;
    world.barrier();
  });
  CHECK(wrong == 0);
  CHECK(engine->planners() == 0);
}

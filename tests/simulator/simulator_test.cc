#include "src/simulator/simulator.h"

#include <catch2/catch.hpp>

#include "src/schedule/builders.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::simulator;
using schedule::Destination;
using schedule::Operand;
using schedule::Schedule;

namespace {

Schedule built(const char* name, int ranks, int lanes = 1, Collective collective = Collective::all_reduce) {
  schedule::Shape shape;
  shape.ranks = ranks;
  shape.lanes = lanes;
  return schedule::find_builder(collective, name)->build(shape);
}

Model model_of(double alpha, double beta, double gamma = 0) {
  Model model;
  model.link = model.remote = {alpha, beta};
  model.gamma_us_per_byte = gamma;
  return model;
}

constexpr std::uint32_t kHuge = 1u << 30;                   // slots in which every chunk fits
constexpr double kAlpha = 3, kBeta = 0.25, kGamma = 0.125;  // exact in binary, so that sums are exact

double time_of(const Schedule& schedule, std::size_t bytes, double gamma = 0, std::uint32_t slots = 2,
               std::uint32_t slot_bytes = kHuge) {
  return simulate(schedule, model_of(kAlpha, kBeta, gamma), bytes, DataType::uint8, slots, slot_bytes).total_us;
}

// Rank 0 sends its only chunk to rank 1, who stores it.
Schedule one_message() {
  Schedule schedule;
  schedule.name = "one";
  schedule.ranks = 2;
  schedule.ports = {{0, {1}, 0, true}};
  schedule.programs.resize(2);
  schedule.programs[0].lanes = {{{{Operand::local(schedule::Buffer::input, 0)}, {Destination::send(0)}}}};
  schedule.programs[1].lanes = {{{{Operand::recv(0)}, {Destination::local(schedule::Buffer::output, 0)}}}};
  return schedule;
}

}  // namespace

TEST_CASE("closed forms of one round") {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    const std::size_t chunk = 4096, bytes = chunk * static_cast<std::size_t>(ranks);
    const double message = kAlpha + kBeta * chunk;
    CAPTURE(ranks);
    CHECK(time_of(built("ring", ranks), bytes) == 2 * (ranks - 1) * message);
    CHECK(time_of(built("ring", ranks), bytes, kGamma) == 2 * (ranks - 1) * message + (ranks - 1) * kGamma * chunk);
    CHECK(time_of(built("ring", ranks, 1, Collective::all_gather), chunk) == (ranks - 1) * message);
    CHECK(time_of(built("twoshot", ranks), bytes) == 2 * message);
    CHECK(time_of(built("twoshot", ranks), bytes, kGamma) == 2 * message + (ranks - 1) * kGamma * chunk);
    const double whole = kAlpha + kBeta * static_cast<double>(bytes);
    CHECK(time_of(built("oneshot", ranks), bytes) == whole);
    CHECK(time_of(built("oneshot", ranks), bytes, kGamma) == whole + (ranks - 1) * kGamma * static_cast<double>(bytes));
    CHECK(time_of(built("oneshot", ranks, 1, Collective::barrier), 0) == kAlpha);
  }
  // log2 P exchanges of S/2, S/4, ..., and back.
  CHECK(time_of(built("halving_doubling", 8), 8192) == 6 * kAlpha + 2 * kBeta * (4096 + 2048 + 1024));
}

TEST_CASE("one message: alpha + beta x bytes, then as many more betas as there are further slices") {
  const Schedule schedule = one_message();
  CHECK(time_of(schedule, 1024) == kAlpha + kBeta * 1024);
  CHECK(time_of(schedule, 0) == kAlpha);
  // With enough slots the connection never rests.
  CHECK(time_of(schedule, 8 * 1024, 0, 8, 1024) == kAlpha + kBeta * 8 * 1024);
  // With one slot, nothing is sent before the last message has been taken.
  CHECK(time_of(schedule, 8 * 1024, 0, 1, 1024) == 8 * (kAlpha + kBeta * 1024));
}

TEST_CASE("rounds overlap on a tree and a pipeline's cost is its slowest link") {
  const Schedule tree = built("tree", 8);
  const std::size_t bytes = 2 * 64 * 1024;  // 64 slices of 1024 per tree
  const double slice = kBeta * 1024;
  const double one_round = time_of(tree, 2 * 1024);
  CHECK(one_round == 6 * (kAlpha + slice));
  const double pipelined = time_of(tree, bytes, 0, 8, 1024);
  CHECK(pipelined == one_round + 63 * slice);
  CHECK(pipelined < 0.2 * 64 * one_round);
}

TEST_CASE("more slots, less latency and more bandwidth are never slower") {
  for (const char* name : {"ring", "tree", "oneshot", "twoshot", "halving_doubling"})
    for (const int ranks : {2, 3, 6, 8})
      for (const std::size_t bytes : {0, 100, 50000, 300000}) {
        const Schedule schedule = built(name, ranks);
        CAPTURE(name, ranks, bytes);
        double before = 1e300;
        for (const std::uint32_t slots : {2, 3, 4, 8, 64}) {
          const double now = time_of(schedule, bytes, 0, slots, 1024);
          CHECK(now <= before);
          before = now;
        }
        const auto with = [&](const Model& model) {
          return simulate(schedule, model, bytes, DataType::uint8, 2, 1024).total_us;
        };
        CHECK(with(model_of(1, 0.25)) <= with(model_of(2, 0.25)));
        CHECK(with(model_of(1, 0.25)) <= with(model_of(1, 0.5)));
        CHECK(with(model_of(1, 0.25)) <= with(model_of(1, 0.25, 0.5)));
      }
}

TEST_CASE("links between hosts have their own costs") {
  Model model = model_of(1, 0);
  model.remote.alpha_us = 100;
  model.host_of_rank = {0, 0, 1, 1};
  // Each chunk goes round the ring of four, crossing twice a turn: 0 -> 1 => 2 -> 3 => 0; chunk by chunk the longest
  // chain of six hops crosses hosts three times.
  CHECK(simulate(built("ring", 4), model, 4096, DataType::uint8, 2, kHuge).total_us == 3 * 100 + 3 * 1);
  CHECK(simulate(built("oneshot", 4), model, 4096, DataType::uint8, 2, kHuge).total_us == 100);
}

TEST_CASE("accounts: messages, bytes, busy times, finish times, trace") {
  const std::size_t chunk = 1024;
  const auto result = simulate(built("ring", 4), model_of(kAlpha, kBeta), 4 * chunk, DataType::uint8, 2, kHuge, true);
  CHECK(result.rounds == 1);
  CHECK(result.messages == 4 * 6);
  REQUIRE(result.connections.size() == 4);
  for (const ConnectionUse& use : result.connections) {
    CHECK(use.reader == (use.writer + 1) % 4);
    CHECK(use.messages == 6);
    CHECK(use.bytes == 6 * chunk);
    CHECK(use.busy_us == 6 * kBeta * chunk);
  }
  CHECK(result.rank_finish_us == std::vector<double>(4, result.total_us));
  std::size_t messages = 0;
  double last = 0;
  for (const Event& event : result.trace) {
    CHECK(event.begin_us >= last);
    last = event.begin_us;
    CHECK(event.end_us >= event.begin_us);
    CHECK(event.end_us <= result.total_us);
    if (event.kind != Event::Kind::message) continue;
    ++messages;
    CHECK(event.end_us - event.begin_us == kAlpha + kBeta * chunk);
  }
  CHECK(messages == result.messages);
  CHECK(result.trace.size() == messages + 4 * 7);
}

TEST_CASE("the same input gives the same result to the last bit") {
  const auto run = [] {
    return simulate(built("tree", 13, 2), model_of(0.7, 0.001, 0.0003), 100003, DataType::float32, 3, 4096, true);
  };
  const auto a = run(), b = run();
  CHECK(a.total_us == b.total_us);
  CHECK(a.trace == b.trace);
}

TEST_CASE("a schedule that comes to a standstill is an error that names the step") {
  Schedule schedule = one_message();
  schedule.programs[0].lanes[0].clear();
  CHECK_THROWS_WITH(time_of(schedule, 10), Catch::Contains("rank 1, lane 0, step 0"));
  // A ring with one slot waits for itself.
  CHECK_THROWS_WITH(time_of(built("ring", 4), 4096, 0, 1), Catch::Contains("standstill with 1 slots per port"));
  CHECK_THROWS_AS(time_of(built("ring", 4), 4096, 0, 0), Error);
  Model model = model_of(1, 1);
  model.host_of_rank = {0};
  CHECK_THROWS_AS(simulate(one_message(), model, 1, DataType::uint8, 2, 64), Error);
  CHECK_THROWS_AS(simulate(one_message(), model_of(-1, 0), 1, DataType::uint8, 2, 64), Error);
}

TEST_CASE("hundreds of ranks") {
  const std::size_t chunk = 64;
  CHECK(time_of(built("ring", 256), 256 * chunk) == 2 * 255 * (kAlpha + kBeta * chunk));
  CHECK(time_of(built("tree", 512), 0) == 2 * 9 * kAlpha);
}

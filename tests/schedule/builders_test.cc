// Every builder is proved right for every rank count, order, lane count and root here, and its stated costs are
// counted.
#include "src/schedule/builders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "src/schedule/collectives.h"
#include "src/schedule/verifier.h"
#include "tutti/error.h"

using namespace tutti::schedule;
using tutti::Collective;

namespace {

std::string title(const Builder& builder) {
  return std::string(tutti::name_of(builder.collective)) + " " + std::string(builder.name);
}

std::vector<int> shuffled(int ranks, unsigned seed) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

void require_proved(const Builder& builder, const Shape& shape, int slots) {
  const Schedule schedule = builder.build(shape);
  const Verdict verdict = verify(schedule, slots);
  INFO(title(builder) << ", " << shape.ranks << " ranks, " << shape.lanes << " lanes, root " << shape.root << ", "
                      << slots << " slots: " << verdict.fault);
  REQUIRE(verdict.ok);
  REQUIRE(verdict.fault.empty());
  REQUIRE(verdict.safe.allows(Transfer::copied, false));
  INFO(verdict.safe.hazard(Transfer::copied, true));
  REQUIRE(verdict.safe.allows(Transfer::copied, true));
  for (bool in_place : {false, true}) {
    INFO("in place: " << in_place);
    INFO(verdict.safe.hazard(Transfer::placed, in_place));
    REQUIRE(verdict.safe.allows(Transfer::placed, in_place));
    // Nobody tells the sender of a one-shot when its memory has been read; everywhere else, lending is safe.
    const bool unheard = shape.ranks > 1 && builder.name == "oneshot" &&
                         (builder.collective == Collective::all_reduce ||
                          builder.collective == Collective::all_gather || builder.collective == Collective::barrier);
    INFO(verdict.safe.hazard(Transfer::lent, in_place));
    REQUIRE(verdict.safe.allows(Transfer::lent, in_place) == !unheard);
    REQUIRE(verdict.safe.allows(Transfer::mixed, in_place) == !unheard);
    REQUIRE(schedule.direct == !unheard);
  }
}

struct Load {  // of one rank, in chunks
  double published = 0, sent = 0, received = 0, reduced = 0;
};

std::vector<Load> count_load(const Schedule& schedule) {
  std::vector<Load> loads;
  for (const Program& program : schedule.programs) {
    Load load;
    for (const Lane& lane : program.lanes)
      for (const Step& step : lane) {
        for (const Destination& out : step.out)
          if (out.kind == Destination::Kind::send) {
            load.published += step.chunks;
            load.sent +=
                step.chunks * static_cast<double>(schedule.ports[static_cast<std::size_t>(out.index)].readers.size());
          }
        for (const Operand& in : step.in)
          if (in.kind == Operand::Kind::recv) load.received += step.chunks;
        if (step.in.size() > 1) load.reduced += static_cast<double>(step.in.size()) * step.chunks;
      }
    loads.push_back(load);
  }
  return loads;
}

double busiest(const std::vector<Load>& loads, double Load::*what) {
  double most = 0;
  for (const Load& load : loads) most = std::max(most, load.*what);
  return most;
}

// The longest chain of messages: every lane in turn runs as far as its messages are there; a message is one longer than
// the longest chain that its Step knows of.
int longest_chain(const Schedule& schedule) {
  struct Runner {
    std::size_t rank, lane, step = 0;
    int chain = 0;
  };
  std::vector<Runner> runners;
  for (std::size_t r = 0; r < schedule.programs.size(); ++r)
    for (std::size_t l = 0; l < schedule.programs[r].lanes.size(); ++l) runners.push_back({r, l});
  std::vector<std::vector<int>> messages(schedule.ports.size());
  std::vector<std::vector<std::size_t>> taken(schedule.ports.size(),
                                              std::vector<std::size_t>(schedule.programs.size()));
  int longest = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (Runner& runner : runners) {
      const Lane& lane = schedule.programs[runner.rank].lanes[runner.lane];
      for (; runner.step < lane.size(); ++runner.step, moved = true) {
        const Step& step = lane[runner.step];
        const auto ready = [&](const Operand& in) {
          const auto port = static_cast<std::size_t>(in.index);
          return in.kind == Operand::Kind::local || taken[port][runner.rank] < messages[port].size();
        };
        if (!std::all_of(step.in.begin(), step.in.end(), ready)) break;
        for (const Operand& in : step.in)
          if (in.kind == Operand::Kind::recv) {
            const auto port = static_cast<std::size_t>(in.index);
            runner.chain = std::max(runner.chain, messages[port][taken[port][runner.rank]++]);
          }
        longest = std::max(longest, runner.chain);
        for (const Destination& out : step.out)
          if (out.kind == Destination::Kind::send)
            messages[static_cast<std::size_t>(out.index)].push_back(runner.chain + 1);
      }
    }
  }
  return longest;
}

const Builder& get(Collective collective, std::string_view name) {
  const Builder* builder = find_builder(collective, name);
  REQUIRE(builder != nullptr);
  return *builder;
}

}  // namespace

TEST_CASE("every builder is proved right for 1 to 33 ranks") {
  for (const Builder& builder : builders())
    for (int ranks = 1; ranks <= 33; ++ranks) require_proved(builder, {.ranks = ranks}, builder.min_slots);
}

TEST_CASE("every builder is proved right with 1 to 4 lanes and shuffled orders") {
  for (const Builder& builder : builders())
    for (int ranks : {2, 3, 4, 5, 7, 8, 9, 12, 15, 17, 33})
      for (int lanes = 1; lanes <= 4; ++lanes) {
        const Shape shape{.ranks = ranks, .order = shuffled(ranks, static_cast<unsigned>(lanes)), .lanes = lanes};
        require_proved(builder, shape, builder.min_slots);
        if (ranks < 9) require_proved(builder, shape, builder.min_slots + lanes);
      }
}

TEST_CASE("every builder is proved right for 48 and 64 ranks") {
  for (const Builder& builder : builders()) {
    require_proved(builder, {.ranks = 48, .order = shuffled(48, 1)}, builder.min_slots);
    require_proved(builder, {.ranks = 64, .lanes = 2}, builder.min_slots);
  }
}

TEST_CASE("rooted builders are proved right for every root") {
  int rooted = 0;
  for (const Builder& builder : builders()) {
    if (!builder.rooted) continue;
    ++rooted;
    for (int ranks = 1; ranks <= 12; ++ranks)
      for (int root = 0; root < ranks; ++root) {
        const Shape shape{.ranks = ranks, .order = shuffled(ranks, 5), .lanes = 1 + root % 2, .root = root};
        require_proved(builder, shape, builder.min_slots);
        REQUIRE(builder.build(shape).root == root);
      }
  }
  CHECK(rooted == 8);
}

TEST_CASE("min_slots is the least number of slots that does not deadlock") {
  for (const Builder& builder : builders()) {
    const Schedule schedule = builder.build({.ranks = 5, .lanes = 2});
    const bool acknowledged =
        std::any_of(schedule.ports.begin(), schedule.ports.end(), [](const Port& port) { return port.acknowledged; });
    if (!acknowledged) CHECK(builder.min_slots == 2);  // what unacknowledged ports always have
    if (acknowledged && builder.min_slots > 1) {
      const Verdict verdict = verify(schedule, builder.min_slots - 1);
      INFO(title(builder));
      CHECK(verdict.kind == FaultKind::deadlock);
    }
  }
}

TEST_CASE("builders send the stated bytes in the stated rounds") {
  for (const Builder& builder : builders())
    for (int ranks = 1; ranks <= 40; ++ranks) {
      const Schedule schedule = builder.build({.ranks = ranks, .order = shuffled(ranks, 9)});
      const std::vector<Load> loads = count_load(schedule);
      // A barrier has the Steps of a reduction, but no bytes.
      const double chunk =
          builder.collective == Collective::barrier ? 0 : 1.0 / std::max(schedule.input_chunks, schedule.output_chunks);
      INFO(title(builder) << ", " << ranks << " ranks");
      CHECK(longest_chain(schedule) == builder.cost.rounds(ranks));
      CHECK(std::abs(busiest(loads, &Load::published) * chunk - builder.cost.published(ranks)) < 1e-9);
      CHECK(std::abs(busiest(loads, &Load::sent) * chunk - builder.cost.sent(ranks)) < 1e-9);
      CHECK(std::abs(busiest(loads, &Load::received) * chunk - builder.cost.received(ranks)) < 1e-9);
      CHECK(std::abs(busiest(loads, &Load::reduced) * chunk - builder.cost.reduced(ranks)) < 1e-9);
    }
}

TEST_CASE("the ring loads every rank alike and sends the least possible") {
  for (int ranks : {2, 3, 8, 13}) {
    const Schedule schedule = get(Collective::all_reduce, "ring").build({.ranks = ranks, .lanes = 2});
    for (const Load& load : count_load(schedule)) {
      CHECK(load.sent == 4 * (ranks - 1));  // two lanes, each 2 (P - 1) chunks of S / (2 P)
      CHECK(load.received == 4 * (ranks - 1));
    }
  }
}

TEST_CASE("odd lanes of the ring run the other way") {
  const std::vector<int> order{3, 0, 4, 1, 2};
  const Schedule schedule = get(Collective::all_reduce, "ring").build({.ranks = 5, .order = order, .lanes = 2});
  std::set<std::pair<int, int>> links[2];
  for (const Port& port : schedule.ports) links[port.channel].insert({port.writer, port.readers.at(0)});
  std::set<std::pair<int, int>> forward, backward;
  for (std::size_t i = 0; i < 5; ++i) {
    forward.insert({order[i], order[(i + 1) % 5]});
    backward.insert({order[(i + 1) % 5], order[i]});
  }
  CHECK(links[0] == forward);
  CHECK(links[1] == backward);
}

TEST_CASE("no rank is an inner node of both trees, and the trees are as deep as log2 of the ranks") {
  for (int ranks = 2; ranks <= 130; ++ranks) {
    const Schedule schedule = get(Collective::all_reduce, "tree").build({.ranks = ranks, .order = shuffled(ranks, 3)});
    std::vector<int> inner(static_cast<std::size_t>(ranks), -1), parents[2];
    for (auto& tree : parents) tree.assign(static_cast<std::size_t>(ranks), -1);
    INFO(ranks << " ranks");
    for (const Port& port : schedule.ports) {
      const int tree = port.channel / 2;  // chunk 0 on the first tree, chunk 1 on the second
      REQUIRE(tree < 2);
      if (port.channel % 2 == 0) {
        REQUIRE(port.readers.size() == 1);
        parents[tree][static_cast<std::size_t>(port.writer)] = port.readers.front();
        continue;
      }
      REQUIRE(port.readers.size() <= 2);
      auto& seen = inner[static_cast<std::size_t>(port.writer)];
      REQUIRE((seen == -1 || seen == tree));
      seen = tree;
    }
    const int limit = static_cast<int>(std::ceil(std::log2(ranks)));
    for (const auto& tree : parents) {
      CHECK(std::count(tree.begin(), tree.end(), -1) == 1);  // one root
      for (int rank = 0; rank < ranks; ++rank) {
        int depth = 0;
        for (int up = rank; (up = tree[static_cast<std::size_t>(up)]) >= 0;) ++depth;
        REQUIRE(depth <= limit);
      }
    }
  }
}

TEST_CASE("one-shot and two-shot reduce in rank order, whatever the order of the shape") {
  for (const char* name : {"oneshot", "twoshot"}) {
    const Schedule schedule = get(Collective::all_reduce, name).build({.ranks = 4, .order = {2, 0, 3, 1}});
    int reductions = 0;
    for (int rank = 0; rank < 4; ++rank)
      for (const Step& step : schedule.programs[static_cast<std::size_t>(rank)].lanes.at(0)) {
        if (step.in.size() < 2) continue;
        ++reductions;
        REQUIRE(step.in.size() == 4);
        for (int r = 0; r < 4; ++r) {
          const Operand& in = step.in[static_cast<std::size_t>(r)];
          CHECK((in.kind == Operand::Kind::local) == (r == rank));
          if (r != rank) CHECK(schedule.ports[static_cast<std::size_t>(in.index)].writer == r);
        }
      }
    CHECK(reductions == 4);
  }
}

TEST_CASE("a single rank copies once, or does nothing in a barrier") {
  for (const Builder& builder : builders()) {
    const Schedule schedule = builder.build({});
    std::size_t steps = 0;
    for (const Lane& lane : schedule.programs.at(0).lanes) steps += lane.size();
    INFO(title(builder));
    CHECK(steps == (builder.collective == Collective::barrier ? 0u : 1u));
    CHECK(schedule.ports.empty());
  }
}

TEST_CASE("the scaling marks are set where results are completed") {
  const Schedule ring = get(Collective::all_reduce, "ring").build({.ranks = 3});
  const Lane& lane = ring.programs[0].lanes[0];
  for (std::size_t s = 0; s < lane.size(); ++s) {
    CHECK(lane[s].postscale == (s == 2));  // of 5 Steps, the one that reduces the last contribution
    for (const Operand& in : lane[s].in) CHECK(in.prescale == (in.kind == Operand::Kind::local));
  }
  const Schedule oneshot = get(Collective::all_reduce, "oneshot").build({.ranks = 3});
  for (const Program& program : oneshot.programs) {
    CHECK_FALSE(program.lanes[0][0].postscale);
    CHECK(program.lanes[0][1].postscale);
  }
  CHECK(get(Collective::all_reduce, "tree").build({}).programs[0].lanes[0][0].postscale);
  for (const Builder& builder : builders()) {
    if (traits_of(builder.collective).reduces) continue;
    for (const Program& program : builder.build({.ranks = 4}).programs)
      for (const Lane& l : program.lanes)
        for (const Step& step : l) {
          CHECK_FALSE(step.postscale);
          for (const Operand& in : step.in) CHECK_FALSE(in.prescale);
        }
  }
}

TEST_CASE("builders are found by collective and name") {
  CHECK(find_builder(Collective::all_reduce, "ring")->build == build_ring_all_reduce);
  CHECK(find_builder(Collective::all_gather, "ring")->build == build_ring_all_gather);
  CHECK(find_builder(Collective::broadcast, "ring") == nullptr);
  CHECK(find_builder(Collective::all_reduce, "") == nullptr);
  CHECK(builder_names(Collective::all_reduce) == "ring, tree, oneshot, twoshot, halving_doubling");
  for (const Builder& builder : builders()) {
    const Schedule schedule = builder.build({.ranks = 3});
    CHECK(schedule.name == builder.name);
    CHECK(schedule.collective == builder.collective);
    CHECK(find_builder(builder.collective, builder.name) == &builder);  // names are unique
  }
}

TEST_CASE("a shape that makes no sense is refused by name") {
  const auto message = [](const Builder& builder, const Shape& shape) -> std::string {
    try {
      builder.build(shape);
    } catch (const tutti::Error& error) {
      CHECK(error.code() == tutti::ErrorCode::invalid_argument);
      return error.what();
    }
    return "accepted";
  };
  for (const Builder& builder : builders()) {
    INFO(title(builder));
    CHECK(message(builder, {.ranks = 0}).find("number of ranks is 0") != std::string::npos);
    CHECK(message(builder, {.ranks = -3}).find("number of ranks is -3") != std::string::npos);
    CHECK(message(builder, {.ranks = 3, .lanes = 0}).find("number of lanes is 0") != std::string::npos);
    CHECK(message(builder, {.ranks = 3, .root = 3}).find("root is 3") != std::string::npos);
    CHECK(message(builder, {.ranks = 3, .order = {0, 1}}).find("lists 2 ranks") != std::string::npos);
    CHECK(message(builder, {.ranks = 3, .order = {0, 1, 1}}).find("rank 1 twice") != std::string::npos);
    CHECK(message(builder, {.ranks = 3, .order = {0, 1, 3}}).find("names rank 3") != std::string::npos);
    CHECK(message(builder, {.ranks = 1, .order = {1}}).find("names rank 1") != std::string::npos);
  }
}

// Communicators made of the ranks of others: split, shrink and grow.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "src/runtime/reunion.h"
#include "tests/runtime/ranks.h"

using namespace tutti;
using tutti::test::in_processes;
using tutti::test::on_threads;

namespace {

Config patient(const std::string& transport = {}) {
  Config config;
  config.transport = transport;
  config.timeout = config.init_timeout = std::chrono::seconds(30);
  return config;
}

void expect(bool fine, const std::string& what) {
  if (!fine) throw std::runtime_error(what);
}

// The old ranks of all members, in their new order, as the members themselves tell them.
std::vector<int> members(Communicator& made, int old_rank) {
  std::vector<int> ranks(static_cast<std::size_t>(made.size()));
  made.all_gather(&old_rank, ranks.data(), 1, DataType::int32);
  return ranks;
}

std::string to_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : " ") + std::to_string(rank);
  return text;
}

void expect_words(const std::string& text, const std::vector<std::string>& all) {
  for (const std::string& words : all) expect(text.find(words) != std::string::npos, text + " | lacks: " + words);
}

// What `call` throws, as "code: message".
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("split: equal colors, in the order of key and rank") {
  const int size = GENERATE(1, 2, 3, 4, 7, 16);
  on_threads(
      size,
      [&](Communicator& world) {
        const int rank = world.rank();
        // Keys that fall with the rank, two by two equal: (key, rank) orders pairs backwards, each pair forwards.
        std::optional<Communicator> half = world.split(rank % 2, -(rank / 4));
        std::vector<int> expected;
        for (int pair = (size - 1) / 4; pair >= 0; --pair)
          for (int r = 4 * pair + rank % 2; r < std::min(size, 4 * pair + 4); r += 2) expected.push_back(r);
        Communicator made = std::move(half.value());
        expect(members(made, rank) == expected, to_text(members(made, rank)));
        expect(expected[static_cast<std::size_t>(made.rank())] == rank, "its rank is " + std::to_string(made.rank()));
        int sum = rank;
        made.all_reduce(std::span(&sum, 1));
        expect(sum == std::accumulate(expected.begin(), expected.end(), 0), "the sum is " + std::to_string(sum));
        int all = 1;
        world.all_reduce(std::span(&all, 1));  // the first one goes on
        expect(all == size, "all is " + std::to_string(all));
      },
      patient());
}

TEST_CASE("split: ranks of no color get nothing, and colors may be any numbers") {
  on_threads(
      5,
      [](Communicator& world) {
        const int colors[] = {Communicator::kNoColor, 0x7fffffff, 0, 0x7fffffff, Communicator::kNoColor};
        auto made = world.split(colors[world.rank()], 0x7fffffff - world.rank());
        expect(made.has_value() == (colors[world.rank()] >= 0), "a communicator or none");
        if (made && world.rank() != 2) expect(members(*made, world.rank()) == std::vector{3, 1}, "members");
        if (world.rank() == 2) expect(made->size() == 1 && made->rank() == 0, "alone");
      },
      patient());
}

TEST_CASE("split: again and again, of what was split, and while others are open") {
  on_threads(
      8,
      [](Communicator& world) {
        std::vector<Communicator> open;
        Communicator* from = &world;
        open.reserve(16);
        for (int round = 0; round < 3; ++round) {
          auto twin = world.split(0, 7 - world.rank());
          expect(twin->rank() == 7 - world.rank(), "the order turned around");
          open.push_back(std::move(*twin));
          open.push_back(std::move(*from->split(from->rank() / (4 >> round), 0)));
          from = &open.back();
          expect(from->size() == 4 >> round, "half as many");
        }
        for (Communicator& each : open) {
          int one = 1;
          each.all_reduce(std::span(&one, 1));
          expect(one == each.size(), "every one works");
        }
      },
      patient());
}

TEST_CASE("split: between processes, by each transport, and the parent may go first") {
  const auto transport = GENERATE(as<std::string>{}, "", "tcp");
  const auto endings = in_processes(
      4,
      [](Communicator& world) -> std::string {
        const int rank = world.rank();
        auto made = world.split(rank / 2, -rank);
        { const Communicator gone = std::move(world); }
        std::vector<double> data(10'000, rank);
        made->all_reduce(std::span(data));
        for (const double sum : data)
          if (sum != (rank < 2 ? 1 : 5)) return "a wrong sum: " + std::to_string(sum);
        return to_text(members(*made, rank));
      },
      patient(transport));
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(endings[static_cast<std::size_t>(rank)].message == (rank < 2 ? "1 0" : "3 2"));
    CHECK(endings[static_cast<std::size_t>(rank)].status == 0);
  }
}

TEST_CASE("split: a bad color is refused before anything is said") {
  on_threads(
      2,
      [](Communicator& world) {
        if (world.rank() == 0)
          expect_words(refusal([&] { world.split(-2, 0); }), {"invalid argument: ", "rank 0", "-2"});
        expect(world.split(1, 0)->size() == 2, "the next one is good");
      },
      patient());
}

TEST_CASE("shrink: without ranks that have died, whichever they are") {
  const auto transport = GENERATE(as<std::string>{}, "", "tcp");
  const auto dead = GENERATE(std::vector<int>{0}, std::vector<int>{3}, std::vector<int>{1, 2}, std::vector<int>{0, 2});
  INFO(to_text(dead) << " by " << transport);
  const auto endings = in_processes(
      5,
      [&](Communicator& world) -> std::string {
        const int rank = world.rank();
        world.barrier();
        if (std::find(dead.begin(), dead.end(), rank) != dead.end()) ::kill(::getpid(), SIGKILL);
        const std::string why = refusal([&] {
          for (;;) world.barrier();
        });
        if (why.find("remote error: ") != 0) return why;
        Communicator rest = world.shrink(dead);
        const std::string first = to_text(members(rest, rank));
        // And what is left can shrink in its turn.
        if (rest.rank() == rest.size() - 1) return first;
        const int last = rest.size() - 1;
        Communicator fewer = rest.shrink(std::span(&last, 1));
        return first + ", then " + to_text(members(fewer, rank));
      },
      patient(transport));
  std::vector<int> stay;
  for (int rank = 0; rank < 5; ++rank)
    if (std::find(dead.begin(), dead.end(), rank) == dead.end()) stay.push_back(rank);
  const std::vector<int> but_one(stay.begin(), stay.end() - 1);
  for (const int rank : stay) {
    const auto& ending = endings[static_cast<std::size_t>(rank)];
    CHECK(ending.message == to_text(stay) + (rank == stay.back() ? "" : ", then " + to_text(but_one)));
  }
}

TEST_CASE("shrink: of one that is healthy or aborted") {
  const bool aborted = GENERATE(false, true);
  on_threads(
      4,
      [&](Communicator& world) {
        if (aborted && world.rank() == 1) world.abort("enough");
        if (aborted) expect_words(refusal([&] { world.barrier(); }), {"aborted: ", "enough"});
        if (world.rank() == 3) return;
        const int last = 3;
        Communicator rest = world.shrink(std::span(&last, 1));
        expect(members(rest, world.rank()) == std::vector{0, 1, 2}, "members");
      },
      patient());
}

TEST_CASE("shrink: bad lists are refused") {
  on_threads(
      3,
      [](Communicator& world) {
        const std::pair<std::vector<int>, std::string> cases[] = {
            {{3}, "rank 3 is to be left out; valid: 0 to 2"},
            {{-1}, "rank -1 is to be left out; valid: 0 to 2"},
            {{world.rank()}, "is to be left out itself"},
            {{(world.rank() + 1) % 3, (world.rank() + 1) % 3}, "is to be left out twice"}};
        for (const auto& [list, words] : cases)
          expect_words(refusal([&, &left_out = list] { world.shrink(left_out); }), {"invalid argument: ", words});
        expect(world.shrink({}).size() == 3, "nobody left out");
      },
      patient());
}

TEST_CASE("shrink: ranks whose lists differ hear of it") {
  Config config = patient();
  config.init_timeout = std::chrono::seconds(2);
  on_threads(
      3,
      [](Communicator& world) {
        if (world.rank() == 2) return;
        const int last = 2;
        const std::string why = refusal([&] { world.shrink(std::span(&last, world.rank() == 0 ? 1 : 0)); });
        expect_words(why, {"size 2", "size 3"});
      },
      config);
}

TEST_CASE("shrink: ranks meet although a split has failed on some of them only") {
  runtime::Reunion one, other;
  one.call({0, 1, 2}, 0, runtime::Occasion::split);
  const auto name = [](runtime::Reunion& reunion, int self) {
    return reunion.call({0, 1}, self, runtime::Occasion::shrink).meeting.name;
  };
  const std::string first = name(one, 0);
  CHECK(first == name(other, 1));
  CHECK(first != name(one, 0));
}

TEST_CASE("grow: new ranks come after the old ones") {
  const bool all_give_it = GENERATE(false, true);
  const UniqueId id = UniqueId::create();
  std::vector<std::string> failures(2);
  std::vector<std::thread> newcomers;
  for (int rank = 3; rank < 5; ++rank)
    newcomers.emplace_back([&, rank] {
      try {
        Communicator made = Communicator::connect(id, rank, 5, patient());
        failures[static_cast<std::size_t>(rank - 3)] = to_text(members(made, 10 * rank));
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank - 3)] = error.what();
      }
    });
  on_threads(
      3,
      [&](Communicator& world) {
        Communicator made = world.grow(5, all_give_it || world.rank() == 1 ? &id : nullptr);
        expect(made.rank() == world.rank(), "keeps its rank");
        expect(members(made, world.rank()) == std::vector{0, 1, 2, 30, 40}, "members");
      },
      patient());
  for (std::thread& thread : newcomers) thread.join();
  for (const std::string& text : failures) CHECK(text == "0 1 2 30 40");
}

TEST_CASE("grow: no id, two ids and too few ranks are refused on every rank") {
  const UniqueId one = UniqueId::create(), other = UniqueId::create();
  on_threads(
      3,
      [&](Communicator& world) {
        expect_words(refusal([&] { world.grow(3, &one); }), {"invalid argument: ", "3 ranks; valid: more than the 3"});
        expect_words(refusal([&] { world.grow(4, nullptr); }), {"invalid usage: ", "no rank gives"});
        const UniqueId* offers[] = {nullptr, &one, &other};
        expect_words(refusal([&] { world.grow(4, offers[world.rank()]); }), {"invalid usage: ", "ranks 1 and 2"});
        world.barrier();
      },
      patient());
}

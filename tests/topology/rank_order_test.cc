#include "src/topology/rank_order.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace tutti::topology;

namespace {

// Two packages of two cores with two PUs each; PUs are numbered as Linux does, siblings four apart.
Topology small_machine() {
  Topology machine;
  machine.packages = {{"", {0, 1}}, {"", {2, 3}}};
  machine.numa_nodes = {{0, 0, {0, 1}}, {1, 0, {2, 3}}};
  for (int core = 0; core < 4; ++core)
    machine.cores.push_back({core / 2, core / 2, core / 2, {core, core + 4}, {core, core + 4}});
  return machine;
}

RankPlace place(int host, int package, int numa, int l3, int core) { return {host, package, numa, l3, core}; }

}  // namespace

TEST_CASE("ranks of one host are ordered by package, NUMA node, L3 and core") {
  const std::vector<RankPlace> places{place(0, 1, 2, 4, 9), place(0, 0, 1, 3, 7), place(0, 0, 0, 1, 3),
                                      place(0, 0, 0, 0, 2), place(0, 0, 0, 0, 1), place(0, 0, 1, 2, 8)};
  CHECK(order_ranks(places) == std::vector<int>{4, 3, 2, 5, 1, 0});
}

TEST_CASE("hosts come in the order of their lowest rank and their ranks stay together") {
  // Round-robin placement: host 7 has ranks 0, 2, 4 and host 3 has ranks 1, 3, 5.
  const std::vector<RankPlace> places{place(7, 0, 0, 0, 2), place(3, 0, 0, 0, 0), place(7, 0, 0, 0, 1),
                                      place(3, 0, 0, 0, 2), place(7, 0, 0, 0, 0), place(3, 0, 0, 0, 1)};
  CHECK(order_ranks(places) == std::vector<int>{4, 2, 0, 1, 5, 3});
}

TEST_CASE("ranks at the same or an unknown place keep their order, unknown places come last") {
  CHECK(order_ranks({{}, {}, {}}) == std::vector<int>{0, 1, 2});
  CHECK(order_ranks({{}, place(0, 0, 0, 0, 5), place(0, 0, 0, 0, -1), place(0, 0, 0, 0, 5)}) ==
        std::vector<int>{1, 3, 2, 0});
  CHECK(order_ranks({}).empty());
}

TEST_CASE("the cores of a host's ranks are counted where ranks are most crowded") {
  const auto may_use = [](const std::vector<int>& cores, int usable = 0) {
    return Standing{{}, cores, usable == 0 ? static_cast<int>(cores.size()) : usable};
  };
  const auto repeat = [](const Standing& rank, std::size_t times) { return std::vector<Standing>(times, rank); };
  CHECK(usable_cores(std::vector<Standing>{}) == 1);
  // Unbound: all cores, or what a quota leaves of them.
  CHECK(usable_cores(repeat(may_use({0, 1, 2, 3}), 4)) == 4);
  CHECK(usable_cores(repeat(may_use({0, 1, 2, 3}), 64)) == 4);
  CHECK(usable_cores(repeat(may_use({0, 1, 2, 3}, 2), 4)) == 2);
  // Bound to a core each.
  CHECK(usable_cores(std::vector{may_use({0}), may_use({1}), may_use({2})}) == 3);
  CHECK(usable_cores(std::vector{may_use({0}), may_use({1}), may_use({0}), may_use({1})}) == 2);
  CHECK(usable_cores(std::vector{may_use({0}), may_use({1}), may_use({1}), may_use({1})}) == 1);
  // Bound to some cores each: a core for each, and more.
  CHECK(usable_cores(std::vector{may_use({0, 1}), may_use({2, 3}), may_use({4, 5}), may_use({6, 7})}) == 8);
  CHECK(usable_cores(std::vector{may_use({0, 1}), may_use({0, 1}), may_use({2, 3}), may_use({2, 3})}) == 4);
  // Crowded only together.
  CHECK(usable_cores(std::vector{may_use({0, 1}), may_use({1, 2}), may_use({0, 2}), may_use({0, 1, 2})}) == 3);
  // One goes where it likes, the others are stuck.
  CHECK(usable_cores(std::vector{may_use({0, 1, 2, 3}), may_use({1}), may_use({1})}) == 1);
}

TEST_CASE("lists of numbers are read as they are written, and nothing else is") {
  for (const std::vector<int>& numbers : {std::vector<int>{}, {0}, {0, 1, 2, 3, 8}, {5, 7, 9, 10}})
    CHECK(parse_ranges(format_ranges(numbers)) == numbers);
  CHECK(parse_ranges("8,0-3") == std::vector<int>{0, 1, 2, 3, 8});
  for (const char* const bad : {"x", "1-", "3-2", "-1", "0,,1", "0-99999999", "1 ", "1;2"})
    CHECK(parse_ranges(bad).empty());
}

TEST_CASE("ranks share the allowed cores evenly, neighbours together") {
  Topology machine = small_machine();
  CHECK(share_of_pus(machine, 0, 1) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(share_of_pus(machine, 0, 2) == std::vector<int>{0, 1, 4, 5});
  CHECK(share_of_pus(machine, 1, 2) == std::vector<int>{2, 3, 6, 7});
  CHECK(share_of_pus(machine, 0, 3) == std::vector<int>{0, 4});
  CHECK(share_of_pus(machine, 1, 3) == std::vector<int>{1, 5});
  CHECK(share_of_pus(machine, 2, 3) == std::vector<int>{2, 3, 6, 7});
  for (int rank = 0; rank < 9; ++rank)
    CHECK(share_of_pus(machine, rank, 9) == std::vector<int>{rank % 4, rank % 4 + 4});

  machine.cores[0].allowed_pus = {};
  machine.cores[2].allowed_pus = {6};
  CHECK(share_of_pus(machine, 0, 3) == std::vector<int>{1, 5});
  CHECK(share_of_pus(machine, 1, 3) == std::vector<int>{6});
  CHECK(share_of_pus(machine, 2, 3) == std::vector<int>{3, 7});
}

TEST_CASE("cores that the system numbers across packages are shared by package") {
  Topology machine = small_machine();
  for (int core = 0; core < 4; ++core) machine.cores[static_cast<std::size_t>(core)].package = core % 2;
  CHECK(share_of_pus(machine, 0, 2) == std::vector<int>{0, 2, 4, 6});
  CHECK(share_of_pus(machine, 1, 2) == std::vector<int>{1, 3, 5, 7});
}

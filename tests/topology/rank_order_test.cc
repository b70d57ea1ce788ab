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

TEST_CASE("ranks per core are rounded up and count bound ranks where they are") {
  CHECK(ranks_per_core(8, 8) == 1);
  CHECK(ranks_per_core(9, 8) == 2);
  CHECK(ranks_per_core(64, 2) == 32);
  CHECK(ranks_per_core(0, 0) == 1);
  const std::vector<RankPlace> places{place(0, 0, 0, 0, 1), place(0, 0, 0, 0, 1), place(0, 0, 0, 0, 1),
                                      place(0, 0, 0, 0, 0), place(1, 0, 0, 0, 1)};
  CHECK(ranks_per_core(places, 0, 8) == 3);
  CHECK(ranks_per_core(places, 1, 8) == 1);
  CHECK(ranks_per_core(places, 0, 1) == 4);
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

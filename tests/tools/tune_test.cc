// What `tutti tune` concludes from figures, and the command as a user runs it.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/compare/tune.h"
#include "src/planner/profile.h"
#include "src/topology/topology.h"
#include "tests/tools/perf_test_fake.h"
#include "tutti/communicator.h"

using namespace tutti;
using namespace tutti::compare;

namespace {

const std::string kTutti = TUTTI_COMMAND;

Outcome outcome(std::vector<std::size_t> sizes, std::vector<std::string> variants,
                const std::vector<std::vector<std::vector<double>>>& rounds) {
  Outcome o{2, std::move(sizes), std::move(variants), {}};
  for (std::size_t v = 0; v < rounds.size(); ++v) {
    o.cells.emplace_back();
    for (const std::vector<double>& times : rounds[v])
      o.cells.back().push_back(times.empty() ? Cell{} : Cell{times, v + 1 == rounds.size() ? "ring" : ""});
  }
  return o;
}

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "tune_test_XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

struct Result {
  int status;
  std::string output;
};

Result run(const std::string& command) {
  std::FILE* pipe = ::popen(("timeout 100 " + command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Result result{};
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whose first algorithm is far better than the other at every size; both are what a measurement might give.
void write_profile(const std::string& path, const std::string& better, const std::string& worse, int ranks) {
  planner::Profile profile;
  profile.machine = planner::this_machine();
  profile.usable_cores = topology::usable_cores(topology::detect(topology::Devices::skip));
  for (const char* name : {"ring", "tree", "oneshot", "twoshot", "halving_doubling"}) {
    const double us = name == better ? 1 : name == worse ? 2000 : 3000;
    profile.tables.push_back({"all_reduce", name, ranks, {{64, us, 1, {4, 8192}}, {65536, us * 2, 1, {4, 65536}}}});
  }
  planner::save_profile(profile, path);
}

}  // namespace

TEST_CASE("of each algorithm and size the best of the variants with the most rounds") {
  const Outcome o = outcome({64, 128}, {"ring/1/4x8K", "ring/1/8x1K", "tree/2/2x64K", "auto"},
                            {{{5, 5, 5, 5}, {9, 9, 9}},
                             {{4, 4, 4, 4}, {1}},  // the second size: fast, but measured once only
                             {{7}, {}},
                             {{5, 5, 5}, {9, 9, 9}}});
  const auto tables = tables_of(o);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].algorithm == "ring");
  CHECK(tables[0].ranks == 2);
  CHECK(tables[0].points == std::vector<planner::Point>{{64, 4, 1, {8, 1024}}, {128, 9, 1, {4, 8192}}});
  CHECK(tables[1].points == std::vector<planner::Point>{{64, 7, 2, {2, 65536}}});
  const std::string text = tuning_text(o, tables);
  CHECK_THAT(text, Catch::Contains("ring/1/8x1K") && Catch::Contains("75%") && Catch::Contains("20%"));
}

TEST_CASE("a variant in use stays where another is no better than 3%") {
  const Outcome o = outcome({64, 128, 256}, {"ring/1/4x8K", "ring/1/8x1K", "auto"},
                            {{{10, 10}, {10.2, 10.2}, {10.4, 10.4}}, {{11, 11}, {10, 10}, {10, 10}}, {{1}, {1}, {1}}});
  const auto tables = tables_of(o);
  CHECK(tables[0].points[0].geometry.slots == 4);
  CHECK(tables[0].points[1].geometry.slots == 4);
  CHECK(tables[0].points[2].geometry.slots == 8);
}

TEST_CASE("an uncertain figure must be better by its uncertainty") {
  // Medians 10 and 9; the second one's quartiles are 8 and 11, which adds 0.93 x 3 / 2.
  const Outcome o =
      outcome({64}, {"ring/1/4x8K", "ring/1/8x1K", "auto"}, {{{10, 10, 10, 10}}, {{8, 8, 10, 14}}, {{1}}});
  CHECK(tables_of(o)[0].points[0] == planner::Point{64, 10, 1, {4, 8192}});
  const Outcome sure =
      outcome({64}, {"ring/1/4x8K", "ring/1/8x1K", "auto"}, {{{10, 10, 10, 10}}, {{9, 9, 9, 9}}, {{1}}});
  CHECK(tables_of(sure)[0].points[0] == planner::Point{64, 9, 1, {8, 1024}});
}

TEST_CASE("times keep four digits") {
  const Outcome o = outcome({64, 128}, {"ring/1/4x8K", "auto"}, {{{1.23456}, {1234567}}, {{1}, {1}}});
  const auto points = tables_of(o)[0].points;
  CHECK(points[0].us == 1.235);
  CHECK(points[1].us == 1235000);
}

TEST_CASE("every rank tunes alike and wrong results end it") {
  Tuning tuning;
  tuning.sizes = {64, 128};
  tuning.rounds = 2, tuning.turn_ms = 0.01, tuning.budget_s = 100;
  perf::test::FakeJob faulty(2, [](int rank, int call, std::byte* output, std::size_t) {
    if (rank == 1 && call == 0) output[3] ^= std::byte{1};
  });
  std::vector<std::string> messages(2);
  faulty.run([&](perf::Peer& peer) {
    try {
      measure_variants(peer, tuning);
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(peer.rank())] = error.what();
    }
  });
  CHECK_THAT(messages[0], Catch::Contains("gives wrong data") && Catch::Contains("seen by another rank"));
  CHECK_THAT(messages[1], Catch::Contains("wrong elements on rank 1"));
}

TEST_CASE("tune --quick makes a profile that the next run uses") {
  for (const std::string memory : {"ordinary", "threads"}) {
    const Folder folder;
    const std::string file = folder.path + "/new/profile.json";
    const Result result =
        run(kTutti + " tune --quick --ranks 2 --sizes 64:64K --memory " + memory + " --output " + file);
    INFO(result.output);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.output, Catch::Contains("at most about") && Catch::Contains("2 ranks:") &&
                                  Catch::Contains("runner-up") && Catch::Contains("Profile saved to " + file));
    const planner::Profile profile = planner::load_profile(file);
    CHECK(profile.memory == memory);
    CHECK(profile.machine == planner::this_machine());
    CHECK(profile.tables.size() == 5);
    for (const planner::Table& table : profile.tables) {
      CHECK(table.ranks == 2);
      REQUIRE(table.points.size() == 4);
      CHECK(table.points.back().bytes == 32768);
    }
    const Result next = run("env TUTTI_PROFILE=" + file + " " + kTutti + " explain --ranks 2 --size 4K");
    CHECK_THAT(next.output, Catch::Contains("  measured\n") && Catch::Contains(file));
    // Another number of ranks is added, the same one replaced.
    REQUIRE(run(kTutti + " tune --quick --ranks 2,3 --sizes 64,128 --memory " + memory + " --output " + file).status ==
            0);
    CHECK(planner::load_profile(file).tables.size() == 10);
    CHECK(planner::load_profile(file).find("all_reduce", "ring", 2)->points.size() == 2);
    if (memory == "ordinary") continue;
    // One made otherwise is replaced.
    const Result other = run(kTutti + " tune --quick --ranks 2 --sizes 64 --output " + file);
    CHECK_THAT(other.output, Catch::Contains("otherwise and is replaced"));
    CHECK(planner::load_profile(file).tables.size() == 5);
  }
}

TEST_CASE("communicators plan by TUTTI_PROFILE") {
  const Folder folder;
  const std::string file = folder.path + "/p.json";
  write_profile(file, "tree", "ring", 3);
  ::setenv("TUTTI_PROFILE", file.c_str(), 1);
  for (Communicator& communicator : Communicator::connect_threads(3)) {
    const PlanInfo plan = communicator.explain(Collective::all_reduce, 16, DataType::float32);
    CHECK(plan.algorithm == "tree");
    CHECK(plan.predicted_us == 1);
    CHECK(plan.runner_up == "ring");
  }
  ::setenv("TUTTI_PROFILE", "none", 1);
  for (Communicator& communicator : Communicator::connect_threads(3))
    CHECK(communicator.explain(Collective::all_reduce, 16, DataType::float32).predicted_us != 1);
  ::unsetenv("TUTTI_PROFILE");
}

TEST_CASE("ranks with different profiles, or bad ones behind rank 0, work together") {
  const Folder folder;
  write_profile(folder.path + "/0.json", "tree", "ring", 3);
  write_profile(folder.path + "/1.json", "ring", "tree", 3);
  std::ofstream(folder.path + "/2.json") << "{";
  const std::string compare = " compare --worker-result " + folder.path + "/out --sizes 64,64K --rounds 1";
  const Result result = run(kTutti + " run -n 3 --no-prefix -- sh -c 'TUTTI_PROFILE=" + folder.path +
                            "/$RANK.json exec " + kTutti + compare + "'");
  INFO(result.output);
  CHECK(result.status == 0);
  const Outcome measured = outcome_from_json_text(read(folder.path + "/out"));
  for (std::size_t s = 0; s < 2; ++s) CHECK(measured.at(measured.forced(), s).chosen == "tree");
  // Rank 0's own must be right.
  const Result bad = run(kTutti + " run -n 2 --no-prefix -- sh -c 'TUTTI_PROFILE=" + folder.path + "/2.json exec " +
                         kTutti + compare + "'");
  CHECK(bad.status != 0);
  CHECK_THAT(bad.output, Catch::Contains("profile " + folder.path + "/2.json: no JSON"));
}

TEST_CASE("another machine's profile is used, with one warning") {
  const Folder folder;
  const std::string file = folder.path + "/p.json";
  write_profile(file, "tree", "ring", 3);
  std::string text = read(file);
  const std::string cores = "\"cores\":";
  text.replace(text.find(cores), cores.size(), cores + "77");
  std::ofstream(file) << text;
  const Result result = run("env TUTTI_PROFILE=" + file + " " + kTutti + " run -n 3 --no-prefix -- " + kTutti +
                            " compare --worker-result " + folder.path + "/out --sizes 64 --rounds 1");
  INFO(result.output);
  CHECK(result.status == 0);
  const std::size_t first = result.output.find("was measured on");
  REQUIRE(first != std::string::npos);
  CHECK(result.output.find("was measured on", first + 1) == std::string::npos);
  CHECK_THAT(result.output, Catch::Contains("77") && Catch::Contains("but this is"));
  CHECK(outcome_from_json_text(read(folder.path + "/out")).at(5, 0).chosen == "tree");
}

TEST_CASE("flags of tune that make no sense are refused by name") {
  const Folder folder;
  for (const char* flags : {"--ranks 1", "--ranks 0", "--ranks two", "--ranks 2,600", "--sizes 0:64", "--sizes x",
                            "--sizes 64:8", "--memory disk", "--sizes 2T", "--frob", "--sizes 64:64:+1:2"}) {
    const Result result = run(kTutti + " tune --quick --output " + folder.path + "/p " + flags);
    INFO(flags << ": " << result.output);
    CHECK(result.status == 2);
    CHECK_THAT(result.output, Catch::Contains("valid"));
  }
  const Result nowhere = run("env TUTTI_PROFILE=none " + kTutti + " tune --quick");
  CHECK(nowhere.status == 2);
  CHECK_THAT(nowhere.output, Catch::Contains("--output"));
  CHECK(std::filesystem::is_empty(folder.path));
}

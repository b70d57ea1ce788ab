// What ranks see (environment, arguments, standard input, cores) and what becomes of their output.
#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "tests/tools/run_test_support.h"

using namespace run_test;
using Catch::Contains;

namespace {

// The i-th line that a rank of the big-output test prints: 1 to 400 characters, told apart by rank and number.
std::string expected_line(int rank, int i) {
  return std::to_string(rank) + ":" + std::to_string(i) + ":" +
         std::string(static_cast<std::size_t>((i * 37 + rank) % 390), static_cast<char>('a' + rank));
}

const char* const kBigOutput =
    "exec awk 'BEGIN { r = ENVIRON[\"RANK\"]; c = substr(\"abcdefgh\", r + 1, 1); p = \"\"; "
    "for (k = 0; k < 400; k++) p = p c; for (i = 0; i < 3000; i++) { "
    "line = r \":\" i \":\" substr(p, 1, (i * 37 + r) % 390); "
    "if (i % 2) print line > \"/dev/stderr\"; else print line } }'";

void check_big_output(const std::string& text, int parity, int step) {
  std::map<int, int> next;
  for (int rank = 0; rank < 8; ++rank) next[rank] = parity;
  std::size_t wrong = 0;
  for (const std::string& line : lines_of(text)) {
    const int rank = line.size() > 3 ? line[1] - '0' : -1;
    if (rank < 0 || rank > 7 || line.substr(0, 4) != "[" + std::to_string(rank) + "] ") {
      ++wrong;
      continue;
    }
    wrong += line.substr(4) != expected_line(rank, next[rank]);
    next[rank] += step;
  }
  CHECK(wrong == 0);
  for (int rank = 0; rank < 8; ++rank) CHECK(next[rank] == 3000 + parity);
}

std::set<int> parse_ranges(const std::string& text) {
  std::set<int> numbers;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const std::size_t dash = part.find('-');
    const int low = std::stoi(part);
    const int high = dash == std::string::npos ? low : std::stoi(part.substr(dash + 1));
    for (int number = low; number <= high; ++number) numbers.insert(number);
  }
  return numbers;
}

std::vector<std::set<int>> masks_of(int ranks, const std::vector<std::string>& flags) {
  const Sandbox sandbox;
  auto arguments = shell(ranks, "sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status > mask-$RANK", flags);
  REQUIRE(run(sandbox, arguments).status == 0);
  std::vector<std::set<int>> masks;
  for (int rank = 0; rank < ranks; ++rank) masks.push_back(parse_ranges(sandbox.read("mask-" + std::to_string(rank))));
  return masks;
}

}  // namespace

TEST_CASE("big output of 8 ranks arrives whole: no line mixed, none lost, each rank's in order") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(8, kBigOutput));
  CHECK(result.status == 0);
  check_big_output(result.out, 0, 2);
  check_big_output(result.err, 1, 2);
}

TEST_CASE("lines stay whole when output and error go to one place") {
  const Sandbox sandbox;
  REQUIRE(wait_for(sandbox.start(shell(8, kBigOutput), "", true)) == 0);
  std::string even;
  std::string odd;
  for (const std::string& line : lines_of(sandbox.read("out"))) {
    const std::size_t colon = line.find(':');
    REQUIRE(colon != std::string::npos);
    (std::stoi(line.substr(colon + 1)) % 2 == 0 ? even : odd) += line + "\n";
  }
  check_big_output(even, 0, 2);
  check_big_output(odd, 1, 2);
}

TEST_CASE("one rank's output is not prefixed, several ranks' is, and flags change both") {
  const Sandbox sandbox;
  CHECK(run(sandbox, shell(1, "echo x")).out == "x\n");
  CHECK(run(sandbox, shell(1, "echo x", {"--prefix"})).out == "[0] x\n");
  CHECK(run(sandbox, shell(2, "[ $RANK = 0 ] || echo x")).out == "[1] x\n");
  CHECK(run(sandbox, shell(2, "echo x", {"--no-prefix"})).out == "x\nx\n");
}

TEST_CASE("bytes pass unchanged, a last line without an end gets one") {
  const Sandbox sandbox;
  const std::string script = "[ $RANK = 1 ] || printf 'a\\000\\377\\r\\033\\n\\n\\001b'";
  const std::string expected("a\0\377\r\033\n\n\001b", 9);
  CHECK(run(sandbox, shell(2, script, {"--no-prefix"})).out == expected + "\n");
  CHECK(run(sandbox, shell(2, script)).out == std::string("[0] a\0\377\r\033\n[0] \n[0] \001b\n", 22));
  CHECK(run(sandbox, shell(1, script)).out == expected);
}

TEST_CASE("a line of several MiB goes out in pieces of at most 1 MiB that lose nothing") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(2, "[ $RANK = 1 ] || head -c 3500000 /dev/zero | tr '\\0' z; echo end"));
  CHECK(result.status == 0);
  std::size_t letters = 0;
  std::size_t longest = 0;
  std::size_t ends = 0;
  for (const std::string& line : lines_of(result.out)) {
    letters += static_cast<std::size_t>(std::count(line.begin(), line.end(), 'z'));
    longest = std::max(longest, line.size());
    ends += line.size() >= 3 && line.substr(line.size() - 3) == "end";
  }
  CHECK(letters == 3500000);
  CHECK(longest == (std::size_t{1} << 20) + 4);
  CHECK(ends == 2);
}

TEST_CASE("a reader that leaves ends the ranks that keep writing") {
  const Sandbox sandbox;
  const std::string script = sandbox.write("pipeline",
                                           "#!/bin/bash\n\"$TUTTI\" run -n 2 -- yes | head -1 > first\n"
                                           "echo ${PIPESTATUS[0]} > status\n",
                                           true);
  setenv("TUTTI", TUTTI_COMMAND, 1);
  REQUIRE(run(sandbox, {"run", "-n", "1", "--", script}).status == 0);
  CHECK_THAT(sandbox.read("first"), Catch::Matches("\\[[01]\\] y\n"));
  CHECK(sandbox.read("status") == "141\n");
}

TEST_CASE("with --output, it writes each rank's bytes to files of its own") {
  const Sandbox sandbox;
  const Result result =
      run(sandbox, shell(3, "printf \"out $RANK\"; printf \"err $RANK\" >&2", {"--output", "logs/run"}));
  CHECK(result.status == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
  for (const std::string rank : {"0", "1", "2"}) {
    CHECK(sandbox.read("logs/run/rank-" + rank + ".out") == "out " + rank);
    CHECK(sandbox.read("logs/run/rank-" + rank + ".err") == "err " + rank);
  }
  const Result refused = run(sandbox, shell(1, "true", {"--output", "in/x"}));
  CHECK(refused.status == 1);
  CHECK_THAT(refused.err, Contains("'in/x'"));
}

TEST_CASE("ranks see torchrun's variables, a place to meet and a secret") {
  const Sandbox sandbox;
  REQUIRE(run(sandbox, shell(3, "env > env-$RANK", {"--env", "A=b=c d", "--env", "E="})).status == 0);
  std::vector<std::map<std::string, std::string>> seen;
  for (int rank = 0; rank < 3; ++rank) {
    seen.emplace_back();
    for (const std::string& line : lines_of(sandbox.read("env-" + std::to_string(rank))))
      seen.back()[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    auto& mine = seen.back();
    CHECK(mine["RANK"] == std::to_string(rank));
    CHECK(mine["LOCAL_RANK"] == std::to_string(rank));
    CHECK(mine["WORLD_SIZE"] == "3");
    CHECK(mine["LOCAL_WORLD_SIZE"] == "3");
    CHECK(mine["GROUP_RANK"] == "0");
    CHECK(mine["MASTER_ADDR"] == "127.0.0.1");
    CHECK(mine["A"] == "b=c d");
    CHECK(mine.count("E") == 1);
    CHECK(mine["TUTTI_SECRET"].size() == 64);
    CHECK(mine["TUTTI_SECRET"].find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(mine["TUTTI_RENDEZVOUS"].substr(0, 10) == "127.0.0.1:");
    CHECK(mine["TUTTI_RENDEZVOUS"].substr(10) != mine["MASTER_PORT"]);
    CHECK(std::stoi(mine["OMP_NUM_THREADS"]) >= 1);
    CHECK(mine["OMP_NUM_THREADS"] == mine["OPENBLAS_NUM_THREADS"]);
    for (const char* name : {"MASTER_PORT", "TUTTI_SECRET", "TUTTI_RENDEZVOUS"}) CHECK(mine[name] == seen[0][name]);
  }
  CHECK(run(sandbox, shell(1, "echo $TUTTI_SECRET")).out != seen[0]["TUTTI_SECRET"] + "\n");
  CHECK(run(sandbox, shell(1, "echo $OMP_NUM_THREADS", {"--env", "OMP_NUM_THREADS=7"})).out == "7\n");
  CHECK(run(sandbox, shell(1, "echo $MASTER_ADDR $MASTER_PORT", {"--master-addr", "h", "--master-port", "99"})).out ==
        "h 99\n");
}

TEST_CASE("arguments after -- reach the program unchanged") {
  const Sandbox sandbox;
  const Result result = run(sandbox, {"run", "-n", "1", "--", "printf", "<%s>", "[1,2]", "{}", "--", "-n", "topo", "",
                                      "%%", "a b", "--bind", "--help"});
  CHECK(result.out == "<[1,2]><{}><--><-n><topo><><%%><a b><--bind><--help>");
  CHECK(result.status == 0);
}

TEST_CASE("standard input goes to rank 0 alone") {
  const Sandbox sandbox;
  CHECK(run(sandbox, shell(3, "cat > got-$RANK"), "line\nlast").status == 0);
  CHECK(sandbox.read("got-0") == "line\nlast");
  CHECK(sandbox.read("got-1").empty());
  CHECK(sandbox.read("got-2").empty());
}

TEST_CASE("with --bind, it gives each rank its share of the allowed cores") {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::set<int> allowed;
  for (int pu = 0; pu < CPU_SETSIZE; ++pu)
    if (CPU_ISSET(static_cast<std::size_t>(pu), &set)) allowed.insert(pu);

  for (const auto& mask : masks_of(2, {})) CHECK(mask == allowed);
  CHECK(masks_of(1, {"--bind"})[0] == allowed);
  const auto two = masks_of(2, {"--bind"});
  std::set<int> both = two[0];
  both.insert(two[1].begin(), two[1].end());
  if (two[0] != two[1]) {  // at least two cores
    CHECK(both == allowed);
    CHECK(two[0].size() + two[1].size() == allowed.size());
  }
  const int many = static_cast<int>(allowed.size()) * 2 + 1;  // more ranks than cores, whatever shares a core
  if (many <= 64) {
    const auto masks = masks_of(many, {"--bind"});
    std::map<std::set<int>, int> ranks;
    for (const auto& mask : masks) ++ranks[mask];
    std::size_t pus = 0;
    int fewest = many;
    int most = 0;
    for (const auto& [mask, count] : ranks) {
      pus += mask.size();
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    CHECK(pus == allowed.size());  // disjoint cores that cover all
    CHECK(most - fewest <= 1);
  }
}

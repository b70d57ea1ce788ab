// The programs as a user runs them: all_reduce_perf and tutti compare, with the whole library beneath.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tutti/types.h"

namespace {

const std::string kPerf = ALL_REDUCE_PERF, kTutti = TUTTI_COMMAND;

struct Result {
  int status;
  std::string output;  // standard output, and standard error where the command line asks for it
};

Result run(const std::string& command) {
  std::FILE* pipe = ::popen(("timeout 100 " + command).c_str(), "r");
  REQUIRE(pipe != nullptr);
  Result result{};
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "perf_cli_test_XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

void check_all_right(const nlohmann::json& json, std::size_t rows) {
  CHECK(json["results"].size() == rows);
  std::size_t wrong = 0;
  for (const auto& row : json["results"])
    wrong += row["out_of_place"]["nwrong"] != 0.0 || row["in_place"]["nwrong"] != 0.0;
  CHECK(wrong == 0);
  CHECK(json["out_of_bounds"]["count"] == 0.0);
}

// How many pairs of a type and an op there are.
std::size_t pairs() {
  std::size_t count = 0;
  for (int type = 0; type < tutti::kDataTypes; ++type)
    for (int op = 0; op < tutti::kReduceOps; ++op)
      count += tutti::can_reduce(static_cast<tutti::DataType>(type), static_cast<tutti::ReduceOp>(op));
  return count;
}

}  // namespace

TEST_CASE("ranks as threads: every type and op is exact") {
  for (const int ranks : {2, 3, 4}) {
    const Folder folder;
    const Result result = run(kPerf + " -b 0 -e 3000 -i 1499 -d all -o all -n 1 -g " + std::to_string(ranks) + " -J " +
                              folder.path + "/out.json 2>&1");
    INFO(result.output);
    CHECK(result.status == 0);
    check_all_right(read_json(folder.path + "/out.json"), 3 * pairs());
  }
}

// What nccl-tests' programs of these names print: bytes of the size column and elements of the count column for a size
// that was asked for, in elements of `element` bytes.
struct Program {
  const char* name;
  enum Size { whole, blocks, others } size;
  bool reduces, rooted, in_place;

  std::size_t count(std::size_t asked, std::size_t element, std::size_t ranks) const {
    if (size == whole) return asked;
    const std::size_t unit = 16 / element;
    return asked / ranks - asked / ranks % unit;
  }
  std::size_t bytes(std::size_t asked, std::size_t element, std::size_t ranks) const {
    const std::size_t each = count(asked, element, ranks) * element;
    return size == whole ? each : size == blocks ? each * ranks : each * (ranks - 1);
  }
};

constexpr Program kPrograms[] = {
    {"all_reduce", Program::whole, true, false, true},  {"reduce", Program::whole, true, true, true},
    {"broadcast", Program::whole, false, true, true},   {"all_gather", Program::blocks, false, false, true},
    {"gather", Program::blocks, false, true, true},     {"scatter", Program::blocks, false, true, true},
    {"alltoall", Program::blocks, false, false, false}, {"reduce_scatter", Program::blocks, true, false, true},
    {"sendrecv", Program::whole, false, false, false},  {"hypercube", Program::others, false, false, true},
};

TEST_CASE("every collective's program: its sizes, its counts, and exact data") {
  const Program program = GENERATE(from_range(std::begin(kPrograms), std::end(kPrograms)));
  const std::size_t ranks = std::string(program.name) == "hypercube" ? 4 : 3;
  const Folder folder;
  const std::string path = kPerf.substr(0, kPerf.rfind('/') + 1) + program.name + "_perf";
  const Result result = run(path + " -b 0 -e 3000 -i 1499 -d all -o all -r all -n 2 -m 2 -u 1 --more -g " +
                            std::to_string(ranks) + " -J " + folder.path + "/out.json 2>&1");
  INFO(result.output);
  REQUIRE(result.status == 0);
  const nlohmann::json json = read_json(folder.path + "/out.json");
  std::size_t at = 0;
  for (int type = 0; type < tutti::kDataTypes; ++type)
    for (int op = 0; op < (program.reduces ? tutti::kReduceOps : 1); ++op) {
      if (!tutti::can_reduce(static_cast<tutti::DataType>(type), static_cast<tutti::ReduceOp>(op))) continue;
      for (std::size_t root = 0; root < (program.rooted ? ranks : 1); ++root)
        for (const std::size_t asked : {0, 1499, 2998}) {
          const auto& row = json["results"].at(at++);
          const std::size_t element = tutti::size_of(static_cast<tutti::DataType>(type));
          CHECK(row["size"] == program.bytes(asked / element, element, ranks));
          CHECK(row["count"] == program.count(asked / element, element, ranks));
          CHECK((row["redop"] == "none") == !program.reduces);
          CHECK(row["root"] == (program.rooted ? std::to_string(root) : "-1"));
          CHECK(row["out_of_place"]["nwrong"] == 0.0);
          REQUIRE(row.contains("in_place") == program.in_place);
          if (program.in_place) CHECK(row["in_place"]["nwrong"] == 0.0);
        }
    }
  CHECK(json["results"].size() == at);
  CHECK(json["out_of_bounds"]["count"] == 0.0);
}

TEST_CASE("programs between processes, and what some of them refuse") {
  const std::string folder = kPerf.substr(0, kPerf.rfind('/') + 1);
  for (const Program& program : kPrograms) {
    const Result result = run(kTutti + " run -n 2 -- " + folder + program.name + "_perf -b 1M -e 1M -n 2 2>&1");
    INFO(result.output);
    CHECK(result.status == 0);
  }
  const Result odd = run(folder + "hypercube_perf -g 3 2>&1");
  CHECK(odd.status == 2);
  CHECK_THAT(odd.output, Catch::Contains("there are 3 ranks; valid: powers of two"));
  const Result forced = run(folder + "sendrecv_perf -g 2 --algo ring 2>&1");
  CHECK(forced.status == 2);
  CHECK_THAT(forced.output, Catch::Contains("--algo is 'ring'"));
}

TEST_CASE("every flag that changes the run works together") {
  const Result result = run(kPerf +
                            " -b 8 -e 64K -f 8 -t 2 -g 1 -n 3 -w 2 -m 2 -z 1 -a 3 -u 1 -I 1 -S 1 -C 1 -M 1 -N 2 "
                            "-c 2 -K 1 --more --touch 2>&1");
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, Catch::Contains("cputime") && Catch::Contains("# Out of bounds values : 0 OK"));
}

TEST_CASE("ranks as processes of tutti run: one table, and the JSON") {
  const Folder folder;
  const Result result =
      run(kTutti + " run -n 2 --no-prefix -- " + kPerf + " -b 8 -e 1M -f 16 -n 2 -J " + folder.path + "/out.json 2>&1");
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK(result.output.find("# Avg bus bandwidth") == result.output.rfind("# Avg bus bandwidth"));
  const nlohmann::json json = read_json(folder.path + "/out.json");
  check_all_right(json, 5);
  REQUIRE(json["config"]["devices"].size() == 2);
  CHECK(json["config"]["devices"][0]["pid"] != json["config"]["devices"][1]["pid"]);
}

TEST_CASE("memory of tutti::alloc: exact on processes and threads, and said in header and JSON") {
  for (const std::string kind : {"tutti", "ordinary"})
    for (const std::string& launch : {kTutti + " run -n 3 --no-prefix -- " + kPerf, kPerf + " -g 3"}) {
      const Folder folder;
      const Result result =
          run(launch + " -b 8 -e 1M -f 16 -n 2 -u 1 --memory " + kind + " -J " + folder.path + "/out.json 2>&1");
      INFO(result.output);
      CHECK(result.status == 0);
      CHECK_THAT(result.output, Catch::Contains("# Memory: " + kind));
      const nlohmann::json json = read_json(folder.path + "/out.json");
      check_all_right(json, 5);
      CHECK(json["config"]["memory"] == kind);
    }
}

TEST_CASE("bad command lines end with status 2 and a message on standard error only") {
  for (const char* flags :
       {"-b 1m -e 1k", "-d foo", "-o foo", "-i -1", "-e", "--nope", "-g 2 -r 99", "-g 2 --algo rnig", "--memory gpu",
        "-g 2 -b 8 -e 4096G -f 2", "-g 2 -b 8 -e 8 -d float -o bit_or", "-g 2 -J /nonexistent/x.json"}) {
    INFO(flags);
    CHECK(run(kPerf + " " + flags + " 2>/dev/null").output.empty());
    const Result result = run(kPerf + " " + flags + " 2>&1");
    CHECK(result.status == 2);
    CHECK_THAT(result.output, Catch::StartsWith("all_reduce_perf: "));
  }
  const Result mixed = run(kTutti + " run -n 2 -- " + kPerf + " -g 2 -b 8 -e 8 2>&1");
  CHECK(mixed.status == 2);
  CHECK_THAT(mixed.output, Catch::Contains("each of which is one rank"));
  CHECK(run(kPerf + " -h").status == 0);
}

TEST_CASE("tutti compare measures and reports") {
  for (const char* how : {"--processes", "--threads"}) {
    const Folder folder;
    const Result result = run("env TUTTI_PROFILE=none " + kTutti + " compare --ranks 2,3 --sizes 8,4K,64K --rounds 2 " +
                              "--bind --algos ring,tree/1/2x64K --out " + folder.path + "/out " + how + " 2>&1");
    INFO(result.output);
    REQUIRE(result.status == 0);
    CHECK_THAT(result.output, Catch::Contains("2 ranks: median us of a call") && Catch::Contains("With 3 ranks ") &&
                                  Catch::Contains("beta GB/s") && Catch::Contains("auto behind") &&
                                  Catch::Contains("tree/1/2x64K"));
    std::ifstream csv(folder.path + "/out/report.csv"), html(folder.path + "/out/report.html");
    std::stringstream page;
    page << html.rdbuf();
    CHECK_THAT(page.str(), Catch::StartsWith("<!DOCTYPE html>") && Catch::EndsWith("</html>\n"));
    std::string line;
    CHECK(std::getline(csv, line));
    CHECK_THAT(line, Catch::StartsWith("ranks,algorithm,"));
  }
}

TEST_CASE("tutti compare names bad values") {
  for (const char* flags : {"--sizes 8:x", "--ranks 0", "--algos rnig --threads --ranks 2 --sizes 8", "--type foo",
                            "--op foo", "--rounds 0", "--algos ring/9 --threads --ranks 2 --sizes 8",
                            "--threads --processes", "--sizes 1 --type double", "--type float --op bit_or"}) {
    const Result result = run(kTutti + " compare " + flags + " 2>&1");
    INFO(flags << "\n" << result.output);
    CHECK(result.status == 2);
    CHECK_THAT(result.output, Catch::Contains("tutti compare: "));
  }
}

TEST_CASE("a negative number is refused with flag, value and valid values, whatever the command") {
  const std::string plan = kTutti + " plan --algo ring --ranks 4", size = " --size 64K";
  const std::string simulate = kTutti + " simulate --algo ring --ranks 4" + size;
  const std::string explain = kTutti + " explain --ranks 4" + size;
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands{
      {kPerf, {"-b", "-e", "-i", "-f", "-n", "-w", "-m", "-N", "-z", "-a", "-C", "-I",
               "-K", "-u", "-t", "-g", "-c", "-T", "-S", "-M", "-p", "-r", "-G", "-R"}},
      {kTutti + " compare", {"--ranks", "--sizes", "--rounds"}},
      {kTutti + " run -n 2", {"--timeout", "--grace", "--master-port"}},
      {kTutti + " run", {"-n"}},
      {kTutti + " train",
       {"--widths", "--epochs", "--batch", "--seed", "--ranks", "--bucket-mb", "--lr", "--momentum"}},
      {plan, {"--root", "--lanes", "--size"}},
      {kTutti + " plan --algo ring", {"--ranks"}},
      {simulate,
       {"--alpha", "--beta", "--gamma", "--hosts", "--remote-alpha", "--remote-beta", "--slots", "--slot-size"}},
      {explain, {"--hosts", "--cores", "--buffer-limit", "--root"}},
  };
  for (const auto& [command, flags] : commands)
    for (const std::string& flag : flags) {
      const std::string program = command.find(" run") != std::string::npos ? " -- true" : "";
      const Result result = run(command + " " + flag + " -7" + program + " 2>&1");
      INFO(command << " " << flag << "\n" << result.output);
      CHECK((result.status == 1 || result.status == 2));
      CHECK_THAT(result.output, Catch::Contains(flag + " is '-7") || Catch::Contains(flag + " is -7"));
      CHECK_THAT(result.output, Catch::Contains("valid"));
      CHECK_THAT(result.output, !Catch::Contains("18446744073709551609"));
    }
}

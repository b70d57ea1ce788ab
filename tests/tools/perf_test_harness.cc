#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/perf/run_rank.h"
#include "bench/perf/statistics.h"
#include "bench/perf/table.h"
#include "tests/tools/perf_test_fake.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::perf;
using namespace tutti::perf::test;

namespace {

class AllReduce final : public CollectiveUnderTest {
 public:
  std::string_view name() const override { return "all_reduce"; }
  std::optional<Collective> collective() const override { return Collective::all_reduce; }
  bool reduces() const override { return true; }
  Shape shape(std::size_t size, std::size_t, const Place&) const override { return {size, size, size, size}; }
  std::vector<Expected> expected(std::size_t count, const Place&) const override {
    return {{0, count, Expected::kReduced, 0}};
  }
  double bus_factor(int ranks) const override { return 2.0 * (ranks - 1) / ranks; }
};

struct Outcome {
  std::vector<int> statuses;
  std::string out;                  // rank 0's
  std::vector<std::string> errors;  // of each rank
};

Outcome run(int ranks, std::vector<const char*> arguments, Fault fault = {}, Watch watch = {}) {
  arguments.insert(arguments.begin(), "build/all_reduce_perf");
  const Options options = parse_options(static_cast<int>(arguments.size()), arguments.data());
  const std::vector<std::string> texts(arguments.begin(), arguments.end());
  const AllReduce collective;
  Outcome outcome;
  outcome.statuses.resize(static_cast<std::size_t>(ranks));
  outcome.errors.resize(static_cast<std::size_t>(ranks));
  std::vector<std::string> outputs(static_cast<std::size_t>(ranks));
  FakeJob(ranks, std::move(fault), std::move(watch)).run([&](FakeJob::Rank& rank) {
    std::ostringstream out, err;
    const auto r = static_cast<std::size_t>(rank.rank());
    outcome.statuses[r] = run_rank(rank, collective, options, texts, out, err);
    outputs[r] = out.str(), outcome.errors[r] = err.str();
  });
  outcome.out = outputs[0];
  for (std::size_t r = 1; r < outputs.size(); ++r) CHECK(outputs[r].empty());  // only rank 0 prints
  return outcome;
}

// The rows of the table, each split at blanks.
std::vector<std::vector<std::string>> rows_of(const std::string& out) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

constexpr std::size_t kOutWrong = 8, kInWrong = 12;  // columns of the plain table

// How many pairs of a type and an op there are.
std::size_t pairs() {
  std::size_t count = 0;
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kReduceOps; ++op) count += can_reduce(static_cast<DataType>(type), static_cast<ReduceOp>(op));
  return count;
}

}  // namespace

TEST_CASE("a right library has no wrong elements, for all types and ops and odd counts") {
  for (int ranks : {1, 2, 3, 5}) {
    const Outcome outcome =
        run(ranks, {"-b", "0", "-e", "40", "-i", "13", "-d", "all", "-o", "all", "-n", "2", "-c", "2"});
    INFO(outcome.out << outcome.errors[0]);
    for (const int status : outcome.statuses) CHECK(status == kGood);
    const auto rows = rows_of(outcome.out);
    CHECK(rows.size() == 4 * pairs());
    for (const auto& row : rows) {
      REQUIRE(row.size() == 13);
      CHECK(row[kOutWrong] == "0");
      CHECK(row[kInWrong] == "0");
    }
    CHECK_THAT(outcome.out, Catch::Contains("# Out of bounds values : 0 OK"));
  }
}

TEST_CASE("one flipped bit in the first call is one wrong element of that side, and the exit status is 1") {
  for (const bool in_place : {false, true}) {
    // Calls of each side: first, 1 warm-up, 2 timed, 1 checked.
    const int first = in_place ? 5 : 0;
    const Outcome outcome =
        run(3, {"-b", "400", "-e", "400", "-n", "2"}, [&](int rank, int call, std::byte* out, std::size_t) {
          if (rank == 1 && call == first) out[123] ^= std::byte{0x10};
        });
    const auto rows = rows_of(outcome.out);
    CHECK(rows.at(0).at(in_place ? kInWrong : kOutWrong) == "1");
    CHECK(rows.at(0).at(in_place ? kOutWrong : kInWrong) == "0");
    for (const int status : outcome.statuses) CHECK(status == kFailed);
    CHECK_THAT(outcome.errors[1],
               Catch::Contains("rank 1: Error: the output of all_reduce float sum with 100 elements") &&
                   Catch::Contains("1 wrong elements: element 30 is 0x"));
    CHECK(outcome.errors[0].empty());
  }
}

TEST_CASE("swapped chunks, a shift by one element, a dropped tail and a stale result are seen, for every type and op") {
  const std::vector<std::pair<std::string, Fault>> faults{
      {"swap",
       [](int rank, int call, std::byte* out, std::size_t bytes) {
         if (rank == 0 && call == 0) std::swap_ranges(out, out + bytes / 4, out + bytes / 2);
       }},
      {"shift",
       [](int rank, int call, std::byte* out, std::size_t bytes) {
         if (rank == 0 && call == 0) std::memmove(out, out + 8, bytes - 8);
       }},
      {"tail",
       [](int rank, int call, std::byte* out, std::size_t bytes) {
         if (rank == 0 && call == 0) std::memset(out + bytes - 8, 0xa7, 8);  // as it was before the call
       }},
      {"stale",
       [last = std::make_shared<std::vector<std::byte>>()](int rank, int call, std::byte* out, std::size_t bytes) {
         if (rank != 0) return;
         // The checked call after the loop delivers a quarter of the result of the call before.
         if (call == 3) last->assign(out, out + bytes);
         if (call == 4) std::copy_n(last->begin(), bytes / 4, out);
       }},
  };
  for (const auto& [name, fault] : faults) {
    const Outcome outcome = run(2, {"-b", "512", "-e", "512", "-n", "2", "-d", "float"}, fault);
    INFO(name << "\n" << outcome.out);
    CHECK(outcome.statuses == std::vector<int>{kFailed, kFailed});
    CHECK(rows_of(outcome.out).at(0).at(kOutWrong) != "0");
  }
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kReduceOps; ++op) {
      if (!can_reduce(static_cast<DataType>(type), static_cast<ReduceOp>(op))) continue;
      const std::string type_name(name_of(static_cast<DataType>(type))), op_name(name_of(static_cast<ReduceOp>(op)));
      const Outcome outcome = run(
          2, {"-b", "512", "-e", "512", "-n", "2", "-d", type_name.c_str(), "-o", op_name.c_str()}, faults[0].second);
      INFO(type_name << " " << op_name);
      CHECK(outcome.statuses == std::vector<int>{kFailed, kFailed});
    }
}

TEST_CASE("a changed input and a fault in the timed loop are seen") {
  const Outcome loop = run(2, {"-b", "64", "-e", "64", "-n", "2"}, [](int rank, int call, std::byte* out, std::size_t) {
    if (rank == 1 && call == 3) out[0] ^= std::byte{1};  // the last call of the out-of-place loop
  });
  CHECK(rows_of(loop.out).at(0).at(kOutWrong) == "1");

  // Input and output of a size are apart: the fault writes to the input through the fake's own record.
  const void* input_of_1 = nullptr;
  const Outcome input = run(
      2, {"-b", "64", "-e", "64", "-n", "2"},
      [&](int rank, int call, std::byte*, std::size_t) {
        if (rank == 1 && call == 4) *static_cast<std::byte*>(const_cast<void*>(input_of_1)) ^= std::byte{1};
      },
      [&](int rank, const void* pointer) {
        if (rank == 1) input_of_1 = pointer;
      });
  CHECK(rows_of(input.out).at(0).at(kOutWrong) == "1");
  CHECK_THAT(input.errors[1], Catch::Contains("the input, which must not change,"));
}

TEST_CASE("bytes written outside the buffers are counted apart") {
  for (const bool before : {false, true}) {
    const Outcome outcome =
        run(2, {"-b", "100", "-e", "100", "-n", "1"}, [&](int rank, int call, std::byte* out, std::size_t bytes) {
          if (rank != 1 || call != 0) return;
          if (before)
            out[-1] ^= std::byte{0xff};
          else
            out[bytes] ^= std::byte{0xff}, out[bytes + 4000] ^= std::byte{1};
        });
    INFO(outcome.out);
    // Counted by the check after the first call and, as it stays, by the one after the loop.
    CHECK_THAT(outcome.out,
               Catch::Contains(before ? "# Out of bounds values : 2 FAILED" : "# Out of bounds values : 4 FAILED"));
    CHECK(rows_of(outcome.out).at(0).at(kOutWrong) == "0");
    CHECK(outcome.statuses == std::vector<int>{kFailed, kFailed});
    CHECK_THAT(outcome.errors[1], Catch::Contains("bytes outside the buffers"));
  }
}

TEST_CASE("with -c 0, it checks nothing and says so") {
  const Outcome outcome = run(2, {"-b", "64", "-e", "64", "-c", "0", "-n", "1"},
                              [](int, int, std::byte* out, std::size_t) { out[0] ^= std::byte{1}; });
  CHECK(outcome.statuses == std::vector<int>{kGood, kGood});
  CHECK(rows_of(outcome.out).at(0).at(kOutWrong) == "N/A");
}

TEST_CASE("a misaligned buffer is measured and guarded where it is") {
  for (const char* type : {"int8", "half", "float", "double"}) {
    const Outcome outcome = run(2, {"-b", "24", "-e", "24", "-u", "3", "-d", type, "-n", "1"});
    INFO(type << outcome.errors[0]);
    CHECK(outcome.statuses == std::vector<int>{kGood, kGood});
  }
}

TEST_CASE("more columns: per iteration, percentiles, algorithm, timestamps") {
  const Outcome outcome =
      run(2, {"-b", "64", "-e", "64", "-n", "3", "-I", "1", "--more", "--touch", "-S", "1", "-m", "2", "-z", "3"});
  const auto rows = rows_of(outcome.out);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].size() == 5 + 2 * (4 + 4 + 3) + 2 + 2);
  CHECK_THAT(outcome.out, Catch::Contains("i_p99") && Catch::Contains("spread") && Catch::Contains(" fake ") &&
                              Catch::Contains(" 2.50"));
  std::istringstream lines(outcome.out);
  std::size_t header = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.find("algbw") != std::string::npos)
      header = line.size();
    else if (line[0] != '#')
      CHECK(line.size() == header);
}

TEST_CASE("what this job cannot do is refused by every rank, and said once") {
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<const char*>, std::string>>{
           {{"-r", "99"}, "-r is '99'; valid for 2 ranks: 0 to 1"},
           {{"--algo", "rnig"}, "--algo is 'rnig'; valid: fake, other, small"},
           {{"-b", "8", "-e", "4096G", "-f", "2"}, "are available; valid: up to about"},
           {{"-J", "/nonexistent/x.json"}, "-J is '/nonexistent/x.json', which cannot be created"}}) {
    const Outcome outcome = run(2, arguments);
    CHECK(outcome.statuses == std::vector<int>{kUsageError, kUsageError});
    CHECK_THAT(outcome.errors[0], Catch::Contains(message));
    CHECK(outcome.errors[1].empty());
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("the JSON has version 3's keys and the table's figures") {
  const auto path = std::filesystem::temp_directory_path() / ("perf_test_" + std::to_string(::getpid()) + ".json");
  ::setenv("TUTTI_TEST_SECRET", "hidden", 1);
  for (const bool again : {false, true}) {  // the second run must not overwrite the first
    std::vector<const char*> arguments{"-b", "64", "-e", "256", "-f", "2", "-n", "2", "--more", "-J", path.c_str()};
    if (again) arguments.push_back("--touched");
    const Outcome outcome = run(2, arguments);
    const std::string written = path.string() + (again ? ".0" : "");
    CHECK_THAT(outcome.out, Catch::Contains("# Writing JSON output to " + written + "\n"));
    std::ifstream file(written);
    const nlohmann::json json = nlohmann::json::parse(file);
    for (const char* key : {"version", "start_time", "args", "env", "nccl_version", "config", "results",
                            "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"})
      CHECK(json.contains(key));
    CHECK(json["version"] == 3);
    CHECK(json["config"]["devices"].size() == 2);
    CHECK(json["config"].value("touched", "") == (again ? "true" : ""));  // nccl-tests' meaning unless asked for
    CHECK(json["args"][1] == "-b");
    CHECK(json["env"].dump().find("hidden") == std::string::npos);
    CHECK(json["out_of_bounds"] == nlohmann::json{{"count", 0.0}, {"okay", "true"}});
    REQUIRE(json["results"].size() == 3);
    const auto& row = json["results"][2];
    CHECK(row["size"] == 256);
    CHECK(row["count"] == 64);
    CHECK(row["type"] == "float");
    CHECK(row["redop"] == "sum");
    CHECK(row["out_of_place"]["nwrong"] == 0);
    const double time = row["in_place"]["time"], rate = row["in_place"]["alg_bw"], bus = row["in_place"]["bus_bw"];
    CHECK(rate == Approx(256 / time * 1e-3));
    CHECK(bus == Approx(rate * 2.0 * 1 / 2));
    CHECK(row["in_place_per_iter"]["times_us"].size() == 2);
    CHECK(row["tutti"]["algorithm"] == "fake");
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path.string() + ".0");
}

TEST_CASE("bandwidths, footer and columns are computed as nccl-tests does") {
  CHECK(bandwidth(1000, 1, 1.5).algorithm == Approx(1.0));  // 1 KB in 1 us is 1 GB/s
  CHECK(bandwidth(1000, 1, 1.5).bus == Approx(1.5));
  CHECK(bandwidth(0, 0, 1).algorithm == 0);
  const AllReduce collective;
  CHECK(collective.bus_factor(2) == Approx(1));
  CHECK(collective.bus_factor(3) == Approx(4.0 / 3));
  CHECK(collective.bus_factor(4) == Approx(1.5));
  CHECK(collective.bus_factor(8) == Approx(1.75));
  CHECK(fitted(0.123, 7) == "   0.12");
  CHECK(fitted(12345.67, 7) == "12345.7");
  CHECK(fitted(1234567.8, 7) == "1234568");
  CHECK(fitted(123456789, 7) == "1.2e+08");
  Totals totals;
  Row row{{250, DataType::float32, ReduceOp::sum, -1}, 1000, 250, "sum", {}, Timing(), {}};
  row.out_of_place.time_us = 1, row.in_place->time_us = 2;
  totals.add(row, 1);
  CHECK(totals.average_bus_bandwidth() == Approx(0.75));  // over both columns
  CHECK_THAT(table_footer(totals, "x_perf"),
             Catch::Contains("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.75"));
}

TEST_CASE("quantiles of known data") {
  const std::vector<double> values{4, 1, 3, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(median(values) == 2.5);
  CHECK(median({5, 1, 9}) == 5);
  CHECK(quantile({0, 10}, 0.75) == 7.5);
  CHECK(interquartile_range({1, 2, 3, 4, 5}) == 2);
  CHECK(mean(values) == 2.5);
  CHECK(standard_deviation({2, 4, 4, 4, 5, 5, 7, 9}) == Approx(2));
  CHECK(quantile({}, 0.5) == 0);
}

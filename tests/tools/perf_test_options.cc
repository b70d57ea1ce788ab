#include <catch2/catch.hpp>

#include "bench/perf/options.h"
#include "src/runtime/memory.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::perf;

namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

using Arguments = std::vector<const char*>;

}  // namespace

TEST_CASE("the defaults are nccl-tests'") {
  const Options o = parse({});
  CHECK(o.min_bytes == 32u << 20);
  CHECK(o.max_bytes == 32u << 20);
  CHECK(sizes(o) == std::vector<std::size_t>{32u << 20});
  CHECK(o.iterations == 20);
  CHECK(o.warmup == 1);
  CHECK(o.aggregate == 1);
  CHECK(o.check == 1);
  CHECK(o.average == Average::mean);
  CHECK(o.thread_ranks() == 1);
  CHECK(o.ops == std::vector{ReduceOp::sum});
  CHECK(o.types == std::vector{DataType::float32});
}

TEST_CASE("short and long names mean the same") {
  const Options a = parse({"-b", "1k",   "-e", "4K", "-f", "2", "-n", "7", "-w", "3", "-m", "2", "-c", "0", "-o", "max",
                           "-d", "half", "-t", "2",  "-g", "3", "-z", "1", "-a", "3", "-T", "9", "-r", "1", "-N", "2"});
  const Options b = parse({"--minbytes",
                           "1K",
                           "--maxbytes=4096",
                           "--stepfactor",
                           "2",
                           "--iters",
                           "7",
                           "--warmup_iters",
                           "3",
                           "--agg_iters",
                           "2",
                           "--check",
                           "0",
                           "--op",
                           "max",
                           "--datatype",
                           "float16",
                           "--nthreads",
                           "2",
                           "--ngpus",
                           "3",
                           "--blocking",
                           "1",
                           "--average",
                           "3",
                           "--timeout",
                           "9",
                           "--root",
                           "1",
                           "--run_cycles",
                           "2"});
  for (const Options& o : {a, b}) {
    CHECK(sizes(o) == std::vector<std::size_t>{1024, 2048, 4096});
    CHECK(o.iterations == 7);
    CHECK(o.warmup == 3);
    CHECK(o.aggregate == 2);
    CHECK(o.check == 0);
    CHECK(o.ops == std::vector{ReduceOp::max});
    CHECK(o.types == std::vector{DataType::float16});
    CHECK(o.thread_ranks() == 6);
    CHECK(o.blocking == Blocking::barrier_each_call);
    CHECK(o.average == Average::max);
    CHECK(o.timeout == std::chrono::seconds(9));
    CHECK(o.roots == std::vector{1});
    CHECK(o.cycles == 2);
  }
}

TEST_CASE("a step takes the same suffixes as the sizes") {
  constexpr std::size_t kMega = 1u << 20;
  for (const char* step : {"2M", "2m", "2048K", "2048k", "2097152", "2MB", "2MiB"}) {
    INFO(step);
    CHECK(sizes(parse({"-b", "64M", "-e", "70M", "-i", step})) ==
          std::vector<std::size_t>{64 * kMega, 66 * kMega, 68 * kMega, 70 * kMega});
  }
  CHECK(sizes(parse({"-b", "1M", "-e", "4M", "-i", "1.5M"})) ==
        std::vector<std::size_t>{kMega, kMega * 5 / 2, 4 * kMega});
}

TEST_CASE("sizes include the last, and a single size needs no step") {
  const std::vector<std::size_t> powers = sizes(parse({"-b", "8", "-e", "128M", "-f", "2"}));
  CHECK(powers.size() == 25);
  CHECK(powers.front() == 8);
  CHECK(powers.back() == 128u << 20);
  CHECK(sizes(parse({"-b", "3", "-e", "100", "-f", "3"})) == std::vector<std::size_t>{3, 9, 27, 81});
  CHECK(sizes(parse({"-b", "0", "-e", "0"})) == std::vector<std::size_t>{0});
  CHECK(sizes(parse({"-b", "0", "-e", "2", "-i", "1"})) == std::vector<std::size_t>{0, 1, 2});
  CHECK(sizes(parse({"-b", "64", "-e", "64", "-f", "1"})) == std::vector<std::size_t>{64});
}

TEST_CASE("all means all types and ops") {
  const Options o = parse({"-d", "all", "-o", "all"});
  CHECK(o.types.size() == kDataTypes);
  CHECK(o.ops.size() == kReduceOps);
  CHECK(parse({"-o", "MULSUM"}).ops == std::vector{ReduceOp::premul_sum});
  CHECK(parse({"-o", "premul_sum", "-d", "bool"}).types == std::vector{DataType::boolean});
}

TEST_CASE("flags for GPUs take the value that asks for nothing, and only that") {
  for (const char* name : {"-G", "-R", "-x", "-D", "-V", "-y", "--cudagraph", "--local_register", "--stream_null"}) {
    INFO(name);
    CHECK_NOTHROW(parse({name, "0"}));
    CHECK_THROWS_WITH(parse({name, "1"}), Catch::Contains("is '1'; valid for host memory: 0 ("));
  }
}

TEST_CASE("a bad command line is an error that names the value and the valid ones") {
  struct Case {
    Arguments arguments;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"-b", "1m", "-e", "1k"}, "-e is 1024 bytes, less than -b with 1048576"},
      {{"-b", "64M"}, "less than -b"},
      {{"-b", "8", "-e", "64", "-f", "1"}, "-f is '1'"},
      {{"-f", "0"}, "-f is '0'; valid: a whole number from 1"},
      {{"-f", "2x"}, "-f is '2x'"},
      {{"-b", "0", "-e", "64", "-f", "2"}, "-b is '0', which -f cannot multiply"},
      {{"-b", "8", "-e", "64", "-i", "0"}, "-i is '0'"},
      {{"-i", "-1"}, "-i is '-1'; valid: a number of bytes"},
      {{"-i", "M"}, "-i is 'M'; valid: a number of bytes"},
      {{"-b", "8", "-e", "1G", "-i", "1"}, "more than 100000 sizes"},
      {{"-b", "12Q"}, "-b is '12Q'"},
      {{"-d", "foo"}, "-d is 'foo'; valid: int8, uint8"},
      {{"-o", "foo"}, "-o is 'foo'; valid: sum, prod"},
      {{"-n", "0"}, "-n is '0'; valid: a whole number from 1"},
      {{"-n", "ten"}, "-n is 'ten'"},
      {{"-w", "-1"}, "-w is '-1'"},
      {{"-z", "4"}, "-z is '4'; valid: a whole number from 0 to 3"},
      {{"-a", "9"}, "-a is '9'; valid: a whole number from 0 to 3"},
      {{"-g", "0"}, "-g is '0'"},
      {{"-g", "64", "-t", "64"}, "is 4096 ranks; valid: at most 1024"},
      {{"-r", "-1"}, "-r is '-1'"},
      {{"-S", "2"}, "-S is '2'"},
      {{"-K", "20"}, "-K is '20'"},
      {{"--frobnicate"}, "--frobnicate"},
      {{"stray"}, "stray"},
      {{"-b"}, "--minbytes: 1 required BYTES missing"},
  };
  for (const Case& bad : cases) {
    INFO(bad.message);
    CHECK_THROWS_WITH(parse(bad.arguments), Catch::Contains(bad.message));
    CHECK_THROWS_AS(parse(bad.arguments), Error);
  }
}

TEST_CASE("help is asked for, not an error") {
  for (const char* name : {"-h", "--help"}) {
    try {
      parse({name});
      FAIL("no help");
    } catch (const HelpRequested& help) {
      CHECK_THAT(help.text, Catch::Contains("--minbytes") && Catch::Contains("--touch"));
    }
  }
}

TEST_CASE("the flag --memory chooses the buffers, and still reports memory as nccl-tests' flag of that name") {
  CHECK(parse({}).memory == BufferMemory::ordinary);
  CHECK(parse({"--memory", "tutti"}).memory == BufferMemory::tutti);
  CHECK_FALSE(parse({"--memory", "tutti"}).memory_report);
  CHECK(parse({"--memory", "tutti", "--memory", "ordinary"}).memory == BufferMemory::ordinary);
  CHECK(parse({"--memory", "1"}).memory_report);
  const Options both = parse({"-M", "1", "--memory", "tutti"});
  CHECK(both.memory_report);
  CHECK(both.memory == BufferMemory::tutti);
  CHECK_THROWS_WITH(parse({"--memory", "gpu"}),
                    Catch::Contains("--memory") && Catch::Contains("'gpu'") && Catch::Contains("ordinary, tutti"));
}

TEST_CASE("guards of both kinds of memory find what is written beside the data") {
  for (const BufferMemory memory : {BufferMemory::ordinary, BufferMemory::tutti}) {
    GuardedBuffer buffer(10000, 8, memory);
    buffer.arm(buffer.data(), 10000);
    CHECK(buffer.violations() == 0);
    buffer.data()[0] = buffer.data()[9999] = std::byte{1};
    CHECK(buffer.violations() == 0);
    for (const std::ptrdiff_t outside : {std::ptrdiff_t{-1}, std::ptrdiff_t{-4096}, std::ptrdiff_t{10000}})
      buffer.data()[outside] ^= std::byte{1};
    CHECK(buffer.violations() == 3);
    // A peer's mapping is the buffer's memory, guards included.
    const auto place = runtime::find_segment(buffer.data() - 4096, 10000 + 2 * 4096);
    CHECK(place.has_value() == (memory == BufferMemory::tutti));
  }
}

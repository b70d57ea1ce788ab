#include "bench/perf/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::perf {
namespace {

using base::parse_integer;
constexpr std::int64_t kMany = 1'000'000'000;
constexpr int kMaxThreadRanks = 1024;
constexpr std::size_t kMaxRows = 100'000;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

using Reader = std::function<void(const std::string&)>;

// Every flag takes a value, as in nccl-tests; `read` turns it into an option or throws.
void flag(CLI::App& app, const char* names, const char* value_name, const char* help, Reader read) {
  app.add_option_function<std::string>(names, std::move(read), help)->type_name(value_name);
}

template <class T>
Reader integer(T& target, const char* source, std::int64_t low, std::int64_t high = kMany) {
  return [&target, source, low, high](const std::string& text) {
    target = static_cast<T>(parse_integer(source, text, low, high));
  };
}

Reader bytes(std::size_t& target, const char* source) {
  return [&target, source](const std::string& text) { target = base::parse_bytes(source, text); };
}

// Accepted for nccl-tests' scripts, with the one value that asks for nothing.
void gpu_flag(CLI::App& app, const char* names, const std::string& source, const std::string& why) {
  flag(app, names, "0", "needs a GPU; 0 only", [source, why](const std::string& text) {
    if (text != "0") refuse(source + " is '" + text + "'; valid for host memory: 0 (" + why + ")");
  });
}

void add_sizes(CLI::App& app, Options& o, bool& factor_given) {
  flag(app, "-b,--minbytes", "BYTES", "smallest size; K, M, G are powers of 1024 (32M)", bytes(o.min_bytes, "-b"));
  flag(app, "-e,--maxbytes", "BYTES", "largest size (32M)", bytes(o.max_bytes, "-e"));
  flag(app, "-i,--stepbytes", "BYTES", "increment between sizes (1M)", bytes(o.step_bytes, "-i"));
  flag(app, "-f,--stepfactor", "N", "factor between sizes, instead of -i",
       [&o, &factor_given](const std::string& text) {
         o.step_factor = static_cast<std::size_t>(parse_integer("-f", text, 1, kMany));
         factor_given = true;
       });
}

// The value that was found by its name, or every value for "all".
template <class Value, int kCount>
std::vector<Value> one_or_all(const char* option, const std::string& text, std::optional<Value> found) {
  if (found) return {*found};
  std::vector<Value> all;
  std::vector<std::string> names;
  for (int i = 0; i < kCount; ++i) {
    all.push_back(static_cast<Value>(i));
    names.emplace_back(name_of(all.back()));
  }
  names.emplace_back("all");
  const std::string name = base::parse_choice(option, text, names);
  if (name == "all") return all;
  return {all[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())]};
}

void add_operation(CLI::App& app, Options& o) {
  flag(app, "-o,--op", "OP", "sum, prod, min, max, avg, mulsum, bit_and, bit_or, bit_xor or all (sum)",
       [&o](const std::string& text) {
         o.ops = one_or_all<ReduceOp, kReduceOps>("-o", text, reduce_op_from_name(text));
       });
  flag(app, "-d,--datatype", "TYPE", "int8, ..., half, float, double, bfloat16, f8e4m3, f8e5m2, bool or all (float)",
       [&o](const std::string& text) {
         o.types = one_or_all<DataType, kDataTypes>("-d", text, data_type_from_name(text));
       });
  flag(app, "-r,--root", "RANK", "root rank or all; collectives without a root ignore it (0)",
       [&o](const std::string& text) {
         o.roots = {text == "all" ? -1 : static_cast<int>(parse_integer("-r", text, 0, kMany))};
       });
}

void add_timing(CLI::App& app, Options& o) {
  flag(app, "-n,--iters", "N", "timed iterations (20)", integer(o.iterations, "-n", 1));
  flag(app, "-w,--warmup_iters", "N", "untimed iterations before (1)", integer(o.warmup, "-w", 0));
  flag(app, "-m,--agg_iters", "N", "calls in flight together in each iteration (1)",
       integer(o.aggregate, "-m", 1, 1 << 16));
  flag(app, "-N,--run_cycles", "N", "repeat the whole table; 0: until interrupted (1)", integer(o.cycles, "-N", 0));
  flag(app, "-z,--blocking", "0-3", "1: barrier after each call, 3: after each iteration (0)",
       integer(o.blocking, "-z", 0, 3));
  flag(app, "-a,--average", "0-3", "time of rank 0 (0), mean (1), least (2) or greatest (3) of the ranks (1)",
       integer(o.average, "-a", 0, 3));
  flag(app, "-C,--report_cputime", "0|1", "report the calling thread's CPU time per call (0)",
       integer(o.cpu_time, "-C", 0, 1));
  flag(app, "-I,--per_iter_timing", "0|1", "columns i_min, i_max, i_p99, i_cv% (0)",
       integer(o.per_iteration, "-I", 0, 1));
  flag(app, "-K,--skip_samples", "N", "leave the first N samples out of per-iteration statistics (0)",
       integer(o.skip, "-K", 0));
  flag(app, "-u,--unalign", "N", "move the first element N elements off the page border (0)",
       integer(o.misalign, "-u", 0, 4096));
}

void add_run(CLI::App& app, Options& o) {
  flag(app, "-t,--nthreads", "N", "threads (1)", integer(o.threads, "-t", 1, kMaxThreadRanks));
  flag(app, "-g,--ngpus", "N", "ranks per thread (1); t * g ranks run as threads of this process",
       integer(o.ranks_per_thread, "-g", 1, kMaxThreadRanks));
  flag(app, "-c,--check", "N", "checked calls after the timed loop, 0: no checks (1)", integer(o.check, "-c", 0));
  flag(app, "-T,--timeout", "S", "seconds until a call fails; 0: the library's default (0)",
       [&o](const std::string& text) {
         const auto seconds = parse_integer("-T", text, 0, 1'000'000);
         if (seconds > 0) o.timeout = std::chrono::seconds(seconds);
       });
  flag(app, "-S,--report_timestamps", "0|1", "column with the time of day (0)", integer(o.timestamps, "-S", 0, 1));
  flag(app, "-J,--output_file", "FILE", "also write JSON", [&o](const std::string& text) { o.json_path = text; });
  flag(app, "-M", "0|1", "report memory (0)", integer(o.memory_report, "-M", 0, 1));
  flag(app, "--memory", "KIND",
       "buffers of ordinary memory or of tutti::alloc: ordinary, tutti (ordinary); 0, 1: as -M",
       [&o](const std::string& text) {
         const std::string kind = base::parse_choice("--memory", text, {"ordinary", "tutti", "0", "1"});
         if (kind == "0" || kind == "1")
           o.memory_report = kind == "1";
         else
           o.memory = kind == "tutti" ? BufferMemory::tutti : BufferMemory::ordinary;
       });
  flag(app, "-p,--parallel_init", "0|1", "accepted: ranks always connect in parallel",
       [](const std::string& text) { parse_integer("-p", text, 0, 1); });
  gpu_flag(app, "-G,--cudagraph", "-G", "there is no CUDA graph to capture");
  gpu_flag(app, "-R,--local_register", "-R", "host buffers need no registration");
  gpu_flag(app, "-x,--cta_policy", "-x", "there are no thread blocks");
  gpu_flag(app, "-D,--device_implementation", "-D", "there is no device kernel");
  gpu_flag(app, "-V,--device_cta_count", "-V", "there are no thread blocks");
  gpu_flag(app, "-y,--stream_null", "-y", "there are no streams");
  app.add_flag("--more", o.more, "columns p50, p99, spread, chosen algorithm and predicted time");
  app.add_flag("--touch,--touched", o.touch,
               "rewrite the input before and read the output after each call; time the call alone");
  app.add_option("--algo", o.algorithm, "force an algorithm (ring, tree, ...)")->type_name("NAME");
}

void check_together(const Options& o, bool factor_given) {
  if (o.max_bytes < o.min_bytes)
    refuse("-e is " + std::to_string(o.max_bytes) + " bytes, less than -b with " + std::to_string(o.min_bytes) +
           "; valid: -e not below -b");
  const bool several = o.min_bytes < o.max_bytes;
  if (several && factor_given && o.step_factor == 1)
    refuse("-f is '1', which never reaches -e " + std::to_string(o.max_bytes) + "; valid: 2 or more");
  if (several && o.step_factor > 1 && o.min_bytes == 0)
    refuse("-b is '0', which -f cannot multiply; valid: -b 1 or more with -f, or steps with -i");
  if (several && o.step_factor == 1 && o.step_bytes == 0)
    refuse("-i is '0', which never reaches -e " + std::to_string(o.max_bytes) + "; valid: 1 or more");
  if (several && o.step_factor == 1 && (o.max_bytes - o.min_bytes) / o.step_bytes >= kMaxRows)
    refuse("-i " + std::to_string(o.step_bytes) + " from -b " + std::to_string(o.min_bytes) + " to -e " +
           std::to_string(o.max_bytes) + " makes more than " + std::to_string(kMaxRows) +
           " sizes; give a larger -i, or -f");
  if (o.thread_ranks() > kMaxThreadRanks)
    refuse("-t " + std::to_string(o.threads) + " times -g " + std::to_string(o.ranks_per_thread) + " is " +
           std::to_string(o.thread_ranks()) + " ranks; valid: at most " + std::to_string(kMaxThreadRanks));
  if (o.skip >= o.iterations)
    refuse("-K is '" + std::to_string(o.skip) + "', which leaves no sample of -n " + std::to_string(o.iterations) +
           "; valid: 0 to " + std::to_string(o.iterations - 1));
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  bool factor_given = false;
  CLI::App app("Times and checks a collective; flags, table and JSON as in nccl-tests.");
  app.set_help_flag("-h,--help", "this text");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_sizes(app, options, factor_given);
  add_operation(app, options);
  add_timing(app, options);
  add_run(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw HelpRequested{app.help()};
  } catch (const CLI::ExtrasError& error) {
    refuse(std::string(error.what()) + "; -h lists the valid flags");
  } catch (const CLI::ParseError& error) {
    refuse(std::string(error.what()) + "; -h lists the flags and their values");
  }
  check_together(options, factor_given);
  return options;
}

std::vector<std::size_t> sizes(const Options& o) {
  std::vector<std::size_t> list;
  for (std::size_t size = o.min_bytes; size <= o.max_bytes;) {
    list.push_back(size);
    const std::size_t next = o.step_factor > 1 ? size * o.step_factor : size + o.step_bytes;
    if (next <= size || (o.step_factor > 1 && next / o.step_factor != size)) break;
    size = next;
  }
  return list;
}

}  // namespace tutti::perf

#include "bench/perf/json_report.h"

#include <unistd.h>

#include <cerrno>

#include "src/base/error.h"

extern char** environ;

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

const char* text_of(bool value) { return value ? "true" : "false"; }  // booleans are strings in this format

// The variables that shape a run. The rest of the environment is nobody's business, secrets least of all.
std::vector<std::string> relevant_environment() {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    bool relevant = false;
    for (const char* prefix : {"TUTTI_", "NCCL_", "OMPI_COMM_WORLD_", "PMI_", "SLURM_NTASKS", "SLURM_PROCID", "RANK",
                               "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      relevant = relevant || name.rfind(prefix, 0) == 0;
    for (const char* part : {"SECRET", "TOKEN", "KEY", "PASS", "UNIQUE_ID"})
      relevant = relevant && name.find(part) == std::string::npos;
    if (relevant) list.push_back(text);
  }
  return list;
}

Json side_json(const Timing& timing, std::size_t bytes, const Options& options, double bus_factor) {
  const Bandwidth rate = bandwidth(bytes, timing.time_us, bus_factor);
  return {{options.cpu_time ? "cpu_time" : "time", timing.time_us},
          {"alg_bw", rate.algorithm},
          {"bus_bw", rate.bus},
          {"nwrong", options.check > 0 ? Json(timing.wrong) : Json(nullptr)}};
}

Json iterations_json(const Timing& timing) {
  const CallStatistics s = statistics_of(timing.call_us);
  return {{"min_us", s.min},           {"max_us", s.max}, {"avg_us", s.mean},        {"p50_us", s.p50},
          {"p95_us", s.p95},           {"p99_us", s.p99}, {"stdev_us", s.deviation}, {"cv_pct", s.variation_percent()},
          {"times_us", timing.call_us}};
}

}  // namespace

JsonReport::JsonReport(const std::string& path, const std::vector<std::string>& arguments) {
  if (path.empty()) return;
  path_ = path;
  for (int attempt = 0; (file_ = std::fopen(path_.c_str(), "wxe")) == nullptr; ++attempt) {
    if (errno != EEXIST || attempt == 1000)
      throw Error(ErrorCode::invalid_argument, "-J is '" + path + "', which cannot be created (" + base::errno_text() +
                                                   "); valid: a file name in a folder that exists and may be written");
    path_ = path + "." + std::to_string(attempt);
  }
  json_ = {{"version", 3},
           {"start_time", now_text()},
           {"args", arguments},
           {"env", relevant_environment()},
           {"nccl_version", 0}};
}

JsonReport::~JsonReport() {
  if (file_ != nullptr) std::fclose(file_);
}

void JsonReport::config(const Options& o, const std::vector<RankInfo>& ranks) {
  if (file_ == nullptr) return;
  Json config{{"nthreads", o.threads},
              {"ngpus", o.ranks_per_thread},
              {"minimum_bytes", o.min_bytes},
              {"maximum_bytes", o.max_bytes}};
  if (o.step_factor > 1)
    config["step_factor"] = o.step_factor;
  else
    config["step_bytes"] = o.step_bytes;
  config["warmup_iters"] = o.warmup;
  config["iterations"] = o.iterations;
  config["aggregated_iterations"] = o.aggregate;
  config["validation"] = o.check;
  config["graph"] = 0;
  config["blocking_collectives"] = text_of(o.blocking != Blocking::none);
  config["per_iter_timing"] = text_of(o.per_iteration);
  config["parallel_init"] = text_of(true);
  if (o.touch) config["touched"] = text_of(true);  // ours; absent means nccl-tests' meaning
  config["memory"] = name_of(o.memory);            // ours
  Json devices = Json::array();
  for (const RankInfo& rank : ranks)
    devices.push_back({{"rank", rank.rank},
                       {"group", 0},
                       {"pid", rank.process},
                       {"hostname", rank.host},
                       {"device", -1},
                       {"device_hex", ""},
                       {"device_info", "host memory"}});
  config["devices"] = devices;
  json_["config"] = config;
  json_["results"] = Json::array();
}

void JsonReport::row(const Row& row, const Options& options, double bus_factor, const std::string& experiment) {
  if (file_ == nullptr) return;
  Json result{{"size", row.reported_bytes},
              {"count", row.count},
              {"type", name_of(row.spec.type)},
              {"redop", row.redop},
              {"root", std::to_string(row.spec.root)}};
  result["out_of_place"] = side_json(row.out_of_place, row.reported_bytes, options, bus_factor);
  if (!row.out_of_place.call_us.empty()) result["out_of_place_per_iter"] = iterations_json(row.out_of_place);
  if (row.in_place) result["in_place"] = side_json(*row.in_place, row.reported_bytes, options, bus_factor);
  if (row.in_place && !row.in_place->call_us.empty()) result["in_place_per_iter"] = iterations_json(*row.in_place);
  result["actual_iterations"] = options.iterations;
  result["experiment_name"] = experiment;
  if (options.more)
    result["tutti"] = {{"algorithm", row.plan.algorithm},     {"predicted_us", row.plan.predicted_us},
                       {"slice_bytes", row.plan.slice_bytes}, {"rounds", row.plan.rounds},
                       {"runner_up", row.plan.runner_up},     {"runner_up_us", row.plan.runner_up_us}};
  json_["results"].push_back(result);
}

void JsonReport::finish(const Totals& totals, const std::vector<std::string>& errors) {
  if (file_ == nullptr) return;
  json_["out_of_bounds"] = {{"count", totals.out_of_bounds}, {"okay", text_of(totals.out_of_bounds == 0)}};
  json_["average_bus_bandwidth"] = {{"bandwidth", totals.average_bus_bandwidth()}, {"okay", "unchecked"}};
  json_["errors"] = errors;
  json_["end_time"] = now_text();
  const std::string text = json_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  if (!written) base::throw_errno("cannot write the JSON report " + path_);
}

}  // namespace tutti::perf

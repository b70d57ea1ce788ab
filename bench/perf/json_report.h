// The JSON of a *_perf program: the keys of nccl-tests' version 3, and ours under "tutti".
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/perf/table.h"

namespace tutti::perf {

// One rank as the header and the JSON list it.
struct RankInfo {
  int rank = 0;
  long process = 0;
  std::string host;
};

class JsonReport {
 public:
  // Opens a new file at `path`, or at path.0, path.1, ... when it exists; an empty path means no report.
  // Throws Error(invalid_argument) when no file can be made there.
  JsonReport(const std::string& path, const std::vector<std::string>& arguments);
  ~JsonReport();
  JsonReport(const JsonReport&) = delete;
  JsonReport& operator=(const JsonReport&) = delete;

  // Where it is written; empty without a report.
  const std::string& path() const { return path_; }

  void config(const Options& options, const std::vector<RankInfo>& ranks);
  void row(const Row& row, const Options& options, double bus_factor, const std::string& experiment);
  // Writes the file; called once.
  void finish(const Totals& totals, const std::vector<std::string>& errors);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
  nlohmann::ordered_json json_;
};

}  // namespace tutti::perf

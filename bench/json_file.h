// What --json of a benchmark program writes.
#pragma once

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::bench {

using Json = nlohmann::ordered_json;

// The program's exit status: 0, also without a path, or 2 after it has said that the file cannot be written.
inline int write_results(const char* program, const std::string& path, const Json& results) {
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << Json{{"results", results}}.dump(2) << "\n";
  if (file.flush()) return 0;
  std::fprintf(stderr, "%s: --json is '%s', which cannot be written; valid: a file in a folder that exists\n", program,
               path.c_str());
  return 2;
}

}  // namespace tutti::bench

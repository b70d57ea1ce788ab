// Finds and ends every process of a job, also those that have left their parents and process groups: all of them carry
// the job's secret in their environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "src/base/fd.h"

namespace tutti::tools {

// The processes of this host, but for the caller, whose environment has the setting ("NAME=value").
std::vector<pid_t> processes_with(const std::string& setting);

// A process that outlives the launcher only to clean up after it: when the launcher dies without saying goodbye
// (kill -9), it kills all that carries the setting, then ends. The destructor says goodbye.
class Guard {
 public:
  explicit Guard(const std::string& setting);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  base::Fd lifeline_;
  pid_t pid_ = -1;
};

}  // namespace tutti::tools

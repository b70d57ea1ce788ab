// Runs the `tutti` command as a user would and watches what becomes of its processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace run_test {

// A directory of its own that ends with the test, and a mark in the environment by which the test finds every process
// that it has started, however deep.
class Sandbox {
 public:
  Sandbox();
  ~Sandbox();  // kills what is left
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  std::string path(const std::string& name = "") const { return (directory_ / name).string(); }
  std::string read(const std::string& name) const;
  std::string write(const std::string& name, const std::string& text, bool executable = false) const;
  bool exists(const std::string& name) const { return std::filesystem::exists(directory_ / name); }

  // Starts `tutti ARGS...` in the directory; standard input from `input`, output to the files "out" and "err" (both
  // to "out" when `together`). Returns its pid.
  pid_t start(const std::vector<std::string>& arguments, const std::string& input = "", bool together = false) const;

  // The processes with the mark.
  std::vector<pid_t> processes() const;

  // Waits until there is such a file, or no process; false when that has not come after half a minute.
  bool wait_for_file(const std::string& name) const;
  bool wait_for_no_process() const;

 private:
  std::filesystem::path directory_;
};

// Its exit status; 128 + number when it was killed. Waits as long as it takes (CTest ends what hangs).
int wait_for(pid_t pid);

struct Result {
  int status = 0;
  std::string out;
  std::string err;
};

Result run(const Sandbox& sandbox, const std::vector<std::string>& arguments, const std::string& input = "");

// run -n N FLAGS -- sh -c SCRIPT
std::vector<std::string> shell(int ranks, const std::string& script, const std::vector<std::string>& flags = {});

std::vector<std::string> lines_of(const std::string& text);

}  // namespace run_test

#include "tests/tools/run_test_support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace run_test {
namespace {

namespace fs = std::filesystem;

std::string whole_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

Sandbox::Sandbox() {
  std::string pattern = (fs::temp_directory_path() / "tutti_run_XXXXXX").string();
  directory_ = fs::path(mkdtemp(pattern.data()));
}

Sandbox::~Sandbox() {
  for (const pid_t pid : processes()) kill(pid, SIGKILL);
  fs::remove_all(directory_);
}

std::string Sandbox::read(const std::string& name) const { return whole_file(directory_ / name); }

std::string Sandbox::write(const std::string& name, const std::string& text, bool executable) const {
  std::ofstream(directory_ / name, std::ios::binary) << text;
  if (executable) fs::permissions(directory_ / name, fs::perms::owner_all);
  return path(name);
}

pid_t Sandbox::start(const std::vector<std::string>& arguments, const std::string& input, bool together) const {
  const std::string in = write("in", input);
  const std::string out = path("out");
  const std::string err = path("err");
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  if (chdir(directory_.c_str()) != 0) _exit(90);
  setenv("TUTTI_TEST_MARK", directory_.c_str(), 1);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TUTTI_LOG"}) unsetenv(name);
  dup2(open(in.c_str(), O_RDONLY), 0);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  dup2(together ? 1 : open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  std::vector<char*> argv{const_cast<char*>("tutti")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(TUTTI_COMMAND, argv.data());
  _exit(91);
}

std::vector<pid_t> Sandbox::processes() const {
  std::vector<pid_t> found;
  const std::string mark = "TUTTI_TEST_MARK=" + directory_.string();
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && whole_file(entry.path() / "environ").find(mark) != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool Sandbox::wait_for_file(const std::string& name) const {
  return eventually([&] { return exists(name); });
}

bool Sandbox::wait_for_no_process() const {
  return eventually([&] { return processes().empty(); });
}

int wait_for(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result run(const Sandbox& sandbox, const std::vector<std::string>& arguments, const std::string& input) {
  const int status = wait_for(sandbox.start(arguments, input));
  return {status, sandbox.read("out"), sandbox.read("err")};
}

std::vector<std::string> shell(int ranks, const std::string& script, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"run", "-n", std::to_string(ranks)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script})
    arguments.push_back(word);
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace run_test

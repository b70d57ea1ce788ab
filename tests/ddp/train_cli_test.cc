// `tutti train` as a user runs it.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

struct Ran {
  int status = -1;
  std::string text;  // output and errors
};

// Runs a shell script in which $tutti is the command.
Ran shell(const std::string& script) {
  const std::string whole = "exec 2>&1; tutti='" TUTTI_COMMAND "'; " + script;
  Ran ran;
  std::FILE* pipe = ::popen(whole.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.text.append(buffer, n);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Directory {
  fs::path path;
  Directory() {
    std::string name = (fs::temp_directory_path() / "tutti_train_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("ranks train, report and save as processes and as threads") {
  const Directory dir;
  const std::string d = dir.path;
  const Ran processes = shell("exec timeout 100 $tutti run -n 2 -- $tutti train --epochs 3 --save " + d + "/p");
  CAPTURE(processes.text);
  CHECK(processes.status == 0);
  CHECK_THAT(processes.text,
             Contains("1348 training and 449 test samples, MLP 64-128-64-10, 2 ranks, global batch 16"));
  CHECK_THAT(processes.text, Contains("epoch   3/3  loss"));
  CHECK_THAT(processes.text, Contains("test accuracy") && Contains("samples/s") && Contains("% exposed"));
  CHECK_THAT(processes.text, !Contains("\r"));
  const Ran threads = shell("exec timeout 100 $tutti train --ranks 2 --epochs 3 --save " + d + "/t");
  CAPTURE(threads.text);
  CHECK(threads.status == 0);
  const std::regex checksum("all ranks hold identical weights \\(checksum ([0-9a-f]{16})\\)");
  std::smatch of_processes, of_threads;
  CHECK(std::regex_search(processes.text, of_processes, checksum));
  CHECK(std::regex_search(threads.text, of_threads, checksum));
  const std::string saved = file_text(dir.path / "p");
  CHECK(saved.size() ==
        std::string("tutti-mlp 1\nwidths 64 128 64 10\n").size() + 4 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10));
  CHECK(file_text(dir.path / "t").size() == saved.size());
}

TEST_CASE("buckets, overlap, widths, label column and files can be chosen") {
  const Directory dir;
  std::ofstream csv(dir.path / "x.csv");
  for (int i = 0; i < 400; ++i) csv << i % 2 << "," << (i % 2 == 0 ? 1 : 9) << "," << i % 7 << "\n";
  csv.close();
  const Ran ran = shell("exec timeout 100 $tutti train --data " + (dir.path / "x.csv").string() +
                        " --label first --widths 2,8,2 --bucket-mb 0 --no-overlap --ranks 3 --batch 10 --epochs 5");
  CAPTURE(ran.text);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.text, Contains("300 training and 100 test samples, MLP 2-8-2, 3 ranks"));
  CHECK_THAT(ran.text, Contains("test accuracy 100.00 %"));
}

TEST_CASE("values that a flag does not take are refused by name") {
  const auto refused = [](const std::string& flags, const std::string& text) {
    const Ran ran = shell("exec timeout 60 $tutti train " + flags);
    CAPTURE(flags, ran.text);
    CHECK((ran.status == 1 || ran.status == 2));
    CHECK_THAT(ran.text, Contains(text));
  };
  refused("--data nonsense", "no data set 'nonsense'; valid: digits, fashion-mnist");
  refused("--widths 63,10", "--widths: digits has 64 features and 10 classes; valid: 64");
  refused("--widths 64,0,10", "--widths is '0'; valid: a whole number from 1 to 65536");
  refused("--widths 64,-3,10", "--widths is '-3'; valid: a whole number from 1 to 65536");
  refused("--epochs 0", "--epochs is '0'; valid: a whole number from 1 to 1000000");
  refused("--epochs -1", "--epochs is '-1'; valid: a whole number from 1 to 1000000");
  refused("--batch x", "--batch is 'x'; valid: a whole number from 1 to 100000000");
  refused("--seed -1", "--seed is '-1'; valid: a whole number from 0 to 18446744073709551615");
  refused("--seed=-1", "--seed is '-1'; valid: a whole number from 0 to 18446744073709551615");
  refused("--seed 18446744073709551616", "--seed is '18446744073709551616'; valid: a whole number from 0 to");
  refused("--lr 0", "--lr is 0.000000; valid: above 0");
  refused("--lr nan", "--lr is nan; valid: above 0");
  refused("--momentum 1", "--momentum is 1.000000; valid: from 0 to below 1");
  refused("--bucket-mb -1", "--bucket-mb is -1.000000; valid: from 0 to 4096");
  refused("--label middle", "first");
  refused("--ranks 65", "--ranks is '65'; valid: a whole number from 1 to 64");
  refused("--ranks -2", "--ranks is '-2'; valid: a whole number from 1 to 64");
  refused("--save /nonexistent/w --epochs 1", "Cannot save the weights: opening /nonexistent/w.part");
  refused("--save /nonexistent/w --epochs 1 --ranks 3", "Cannot save the weights: opening /nonexistent/w.part");
  refused("--save /dev/null --epochs 1", "'/dev/null' is no regular file");
  refused("--sped 3", "unknown flag '--sped'; valid:");
}

TEST_CASE("when a rank is killed, the others end with an error that names it") {
  const Directory dir;
  const Ran ran = shell("cd " + dir.path.string() + R"(
    export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000))
    for r in 0 1 2; do
      RANK=$r LOCAL_RANK=$r timeout 60 $tutti train --epochs 100000 > out$r 2> err$r & eval "pid$r=$!"
    done
    i=0; while ! grep -q 'epoch  *3/' out0 && [ $i -lt 500 ]; do sleep 0.05; i=$((i + 1)); done
    kill -9 $(cat /proc/$pid1/task/$pid1/children)
    wait $pid0; echo "status0 $?"; wait $pid2; echo "status2 $?"
    sed 's/^/err0 /' err0; sed 's/^/err2 /' err2)");
  CAPTURE(ran.text);
  CHECK_THAT(ran.text, Contains("status0 1") && Contains("status2 1"));
  CHECK(std::regex_search(ran.text, std::regex("err0 .*rank 1")));
  CHECK(std::regex_search(ran.text, std::regex("err2 .*rank 1")));
}

TEST_CASE("the program in docs/training.md is the one that is compiled") {
  const fs::path root = TUTTI_SOURCE;
  const std::string program = file_text(root / "examples/mlp/minimal.cc");
  REQUIRE(program.size() > 500);
  CHECK_THAT(file_text(root / "docs/training.md"), Contains("```cpp\n" + program + "```\n"));
}

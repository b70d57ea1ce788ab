// The harness must find wrong data and take the slowest rank's time, or its tables mean nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/peers/harness.h"

using namespace tutti::peers;

namespace {

// A directory for the control page and the rows, removed at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("peers_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Line {
  std::string algorithm, variant;
  std::size_t bytes = 0;
  double us = 0;
  std::size_t calls = 0, wrong = 0;
  double quartile_1 = 0, quartile_3 = 0, mean = 0, cpu_us = 0;
};

std::vector<Line> lines_of(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (Line line; file >> line.algorithm >> line.variant >> line.bytes >> line.us >> line.calls >> line.wrong >>
                  line.quartile_1 >> line.quartile_3 >> line.mean >> line.cpu_us;)
    lines.push_back(line);
  return lines;
}

// Runs the harness with one rank, for which reducing is copying, and lets `spoil` change the output of every call.
template <class Spoil>
std::vector<Line> lines_with(Spoil spoil) {
  const Folder folder;
  Settings settings;
  settings.page = folder.file("page");
  settings.out = folder.file("rows");
  settings.sizes = {8, 4096, 1 << 20};
  settings.loop_ms = 1;
  ControlPage page(settings.page, 0, 1);
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [=] {
      std::copy(input, input + count, output);
      spoil(output, count);
    };
  };
  measure_sizes(settings, page, "copy", Placement::out_of_place, prepare, [](std::size_t) { return std::string(); });
  return lines_of(settings.out);
}

// Runs `work(rank)` in `ranks` processes; true when all returned true.
template <class Work>
bool in_processes(int ranks, Work work) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool good = false;
      try {
        good = work(rank);
      } catch (...) {
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

}  // namespace

TEST_CASE("right data give a row per size and variant and no wrong element") {
  const std::vector<Line> lines = lines_with([](float*, std::size_t) {});
  REQUIRE(lines.size() == 6);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].variant == (i % 2 == 0 ? "touched" : "untouched"));
    CHECK(lines[i].bytes == std::vector<std::size_t>{8, 4096, 1 << 20}[i / 2]);
    CHECK(lines[i].calls >= kFewestCalls);
    CHECK(lines[i].us > 0);
    CHECK(lines[i].quartile_1 <= lines[i].us);
    CHECK(lines[i].us <= lines[i].quartile_3);
    CHECK(lines[i].mean > 0);
    CHECK(lines[i].cpu_us > 0);
    CHECK(lines[i].wrong == 0);
  }
}

TEST_CASE("one wrong element is found in every row, on the first call and on the last") {
  for (const Line& line : lines_with([](float*output, std::size_t count) { output[count - 1] += 1.0F / 4096; }))
    CHECK(line.wrong == 2);
}

TEST_CASE("two exchanged halves are found") {
  const auto lines =
      lines_with([](float* output, std::size_t count) { std::rotate(output, output + count / 2, output + count); });
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].wrong == 4);
  for (const Line& line : lines) CHECK(line.wrong > line.bytes / sizeof(float));
}

TEST_CASE("output of an earlier writing of the input is found") {
  std::vector<float> output(1000);
  write_input(output.data(), output.size(), 0, 6);
  CHECK(wrong_elements(output.data(), output.size(), 1, 6) == 0);
  CHECK(wrong_elements(output.data(), output.size(), 1, 7) > 900);
}

TEST_CASE("sums of 64 ranks are exact, whatever the order") {
  for (std::size_t i = 0; i < 1000; ++i) {
    double exact = 0;
    float backwards = 0;
    for (int rank = kMostRanks - 1; rank >= 0; --rank) {
      exact += static_cast<double>(value_of(i, rank, 3));
      backwards += value_of(i, rank, 3);
    }
    REQUIRE(static_cast<double>(backwards) == exact);
  }
}

TEST_CASE("the control page gives all ranks the same maximum, many times over") {
  const Folder folder;
  const std::string path = folder.file("page");
  CHECK(in_processes(3, [&](int rank) {
    ControlPage page(path, rank, 3);
    for (int turn = 0; turn < 2000; ++turn) {
      const int slowest = turn % 3;
      if (page.max(rank == slowest ? turn + 0.5 : turn - 1.0 - rank) != turn + 0.5) return false;
    }
    return true;
  }));
}

TEST_CASE("of every sample the slowest rank's time counts") {
  const Folder folder;
  const std::string path = folder.file("page");
  constexpr int kSamples = 1500;  // more than one exchange holds
  CHECK(in_processes(3, [&](int rank) {
    ControlPage page(path, rank, 3);
    std::vector<double> mine;
    for (int i = 0; i < kSamples; ++i) mine.push_back(i % 3 == rank ? 10.0 + i : 1.0);
    page.max_each(mine);
    for (int i = 0; i < kSamples; ++i)
      if (mine[static_cast<std::size_t>(i)] != 10.0 + i) return false;
    return page.sum(rank + 1) == 6;
  }));
}

TEST_CASE("bytes of all ranks are gathered in their order, also more than one exchange holds") {
  const Folder folder;
  const std::string path = folder.file("page");
  const auto byte_of = [](std::size_t i, int rank) {
    return static_cast<unsigned char>(i * 7 + i / 251 + 100U * rank);
  };
  CHECK(in_processes(3, [&](int rank) {
    ControlPage page(path, rank, 3);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{10'000}}) {
      std::vector<unsigned char> mine(bytes), all(3 * bytes + 1, 0xee);
      for (std::size_t i = 0; i < bytes; ++i) mine[i] = byte_of(i, rank);
      page.all_gather(mine.data(), bytes, all.data());
      for (std::size_t i = 0; i < 3 * bytes; ++i)
        if (all[i] != byte_of(i % bytes, static_cast<int>(i / bytes))) return false;
      if (all.back() != 0xee) return false;
    }
    return true;
  }));
}

TEST_CASE("the figure is the median of the samples") {
  Row row;
  summarise_samples({5, 1, 3, 100, 2}, row);
  CHECK(row.us == 3);
  CHECK(row.quartile_1 == 2);
  CHECK(row.quartile_3 == 5);
  CHECK(row.mean == Approx(22.2));
}

TEST_CASE("a call that is too slow for the point's time is made less often") {
  const Folder folder;
  Settings settings;
  settings.page = folder.file("page");
  settings.out = folder.file("rows");
  settings.sizes = {8};
  settings.loop_ms = 1000;
  settings.point_ms = 60;
  ControlPage page(settings.page, 0, 1);
  int calls = 0;
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [=, &calls] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::copy(input, input + count, output);
      ++calls;
    };
  };
  measure_sizes(settings, page, "slow", Placement::out_of_place, prepare, [](std::size_t) { return std::string(); });
  const std::vector<Line> lines = lines_of(settings.out);
  REQUIRE(lines.size() == 2);
  for (const Line& line : lines) CHECK(line.calls == 1);
  CHECK(calls == 4);  // per variant the checked call and one of the loop
}

TEST_CASE("nobody leaves the barrier before the last rank has come") {
  const Folder folder;
  const std::string path = folder.file("page");
  const std::string sign = folder.file("sign");
  CHECK(in_processes(2, [&](int rank) {
    ControlPage page(path, rank, 2);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ofstream(sign) << "rank 0 comes now";
    }
    page.barrier();
    return std::filesystem::exists(sign);
  }));
}

TEST_CASE("bad flags are named with the valid ones") {
  const auto complaint = [](std::vector<std::string> words) {
    std::vector<char*> argv{nullptr};
    for (std::string& word : words) argv.push_back(word.data());
    try {
      Settings::from_arguments(static_cast<int>(argv.size()), argv.data());
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(complaint({"--page", "p", "--out", "o", "--sizes", "8,64", "--memory", "tutti"}).empty());
  CHECK(complaint({"--sizes", "8,x"}).find("--sizes is 'x'; valid: a number from 4") != std::string::npos);
  CHECK(complaint({"--sizes", "6"}).find("whole float32 elements") != std::string::npos);
  CHECK(complaint({"--variants", "cold"}).find("'cold'; valid: touched, untouched") != std::string::npos);
  CHECK(complaint({"--depth", "1"}).find("unknown flag '--depth'") != std::string::npos);
  CHECK(complaint({"--ranks", "65"}).find("--ranks is '65'; valid: a number from 1 to 64") != std::string::npos);
  CHECK(complaint({"--memory", "cold"}).find("--memory is 'cold'; valid: ordinary, tutti") != std::string::npos);
  CHECK(complaint({"--loop-ms"}).find("lacks its value") != std::string::npos);
  CHECK(complaint({}).find("--page, --out and --sizes are needed") != std::string::npos);
}

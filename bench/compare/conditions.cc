#include "bench/compare/conditions.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

namespace tutti::compare {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const bool named = line.rfind("model name", 0) == 0 || line.rfind("Model", 0) == 0;
    const std::size_t colon = line.find(": ");
    if (named && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

// Of all cores since the start, in ticks: all, and idle or waiting for a device.
struct Ticks {
  double all = 0, idle = 0;
};

Ticks ticks() {
  std::ifstream file("/proc/stat");
  std::string name;
  Ticks sum;
  file >> name;
  double value = 0;
  for (int column = 0; column < 8 && file >> value; ++column) {  // user nice system idle iowait irq softirq steal
    sum.all += value;
    if (column == 3 || column == 4) sum.idle += value;
  }
  return sum;
}

}  // namespace

double busy_share() {
  const Ticks before = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  const Ticks after = ticks();
  const double all = after.all - before.all;
  return all > 0 ? std::clamp(1 - (after.idle - before.idle) / all, 0.0, 1.0) : 0;
}

Conditions conditions_here(const Experiment& experiment, const std::string& version, const std::string& command_line,
                           bool threads) {
  utsname system{};
  ::uname(&system);
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool known = ::sched_getaffinity(0, sizeof usable, &usable) == 0;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 64> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M %Z", &local);
  return {system.nodename,
          cpu_model(),
          known ? CPU_COUNT(&usable) : 0,
          std::string(system.sysname) + " " + system.release,
          version,
          date.data(),
          command_line,
          threads ? "threads of one process" : "processes",
          std::string(name_of(experiment.type)),
          std::string(name_of(experiment.op)),
          experiment.rounds};
}

std::vector<std::pair<std::string, std::string>> listed(const Conditions& c) {
  return {{"Machine", c.host + ", " + c.cpu},
          {"Cores usable", std::to_string(c.cores)},
          {"System", c.kernel},
          {"Tutti", c.version},
          {"Date", c.date},
          {"Command", c.command_line},
          {"Operation", "all_reduce " + c.op + " of " + c.type + ", out of place, ranks as " + c.ranks_as},
          {"Method", std::to_string(c.rounds) +
                         " rounds, the algorithms taking turns in each; every rank rewrites its input before and reads "
                         "its output after each call, only the call is timed; a round's figure is the median of "
                         "its calls' times on the slowest rank; medians over the rounds, bars and spread from the "
                         "first to the third quartile; every "
                         "result checked exactly"}};
}

}  // namespace tutti::compare

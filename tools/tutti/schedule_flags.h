// The flags that plan, explain and simulate share. Every flag is read as text, so that an error can name the value and
// the valid ones.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "src/schedule/builders.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::tools {

inline constexpr int kMostRanks = 1024;
inline constexpr int kMostLanes = 64;

struct ScheduleFlags {
  std::string algorithms, ranks, collective = "all_reduce", lanes = "1", root = "0", size, type = "float", op = "sum";

  void add_algorithm(CLI::App& command, bool several);
  void add_world(CLI::App& command);  // --ranks, --collective, --root
  void add_lanes(CLI::App& command);
  void add_size(CLI::App& command, bool required);  // --size, --type

  // The values; throw CLI::ValidationError that names flag, value and valid values.
  int rank_count() const;
  Collective the_collective() const;
  DataType the_type() const;
  ReduceOp the_op() const;
  int the_root() const;
  std::size_t count() const;                      // elements of --size bytes, rounded down
  std::vector<schedule::Schedule> build() const;  // one for each name of --algo
};

// Runs `read`, and turns Error(invalid_argument) into CLI::ValidationError, which ends the command with status 2.
template <class Read>
auto flag(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw CLI::ValidationError(error.what());
  }
}

// A number of at least `low`, as "2.5"; whatever the locale.
double parse_number(const std::string& source, const std::string& text, double low, double high);

// Host of every rank when `hosts` hosts hold blocks of about equally many; empty for one host.
std::vector<int> blocks_of_ranks(int ranks, int hosts);

}  // namespace tutti::tools

// A machine's measured profile: what each algorithm takes there, at which lanes and slots, by size. Where it has
// figures, it replaces the planner's built-in costs. `tutti tune` makes it.
//
// A file is JSON of at most 1 MiB:
//   {"version": 2,
//    "machine": {"host": "name", "cpu": "model", "cores": 2, "numa_nodes": 1, "library": "0.1.0"},
//    "memory": "ordinary", "usable_cores": 2,
//    "tables": [{"collective": "all_reduce", "algorithm": "ring", "ranks": 2, "points": [
//      [64, 0.47, 1, 8, 1024], ...]}]}
// where a point is [bytes, us, lanes, slots, slot_bytes], bytes being the border of a size class, in ascending order.
//
// Rank 0 sends the others the tables that they need: one per algorithm, each of at most kMostPoints points, so at most
// some 25 KB and 3 KB as `tutti tune` makes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/planner/machine.h"
#include "src/planner/variant.h"

namespace tutti::planner {

struct Point {
  std::size_t bytes = 0;  // of the call (count x element size)
  double us = 0;
  int lanes = 1;
  Geometry geometry;
  friend bool operator==(const Point&, const Point&) = default;
};

struct Table {
  std::string collective = "all_reduce";  // as tutti::name_of spells it
  std::string algorithm;
  int ranks = 0;              // all on one host
  std::vector<Point> points;  // at least one, ascending

  // What to expect of a call. Between two points the time lies on a straight line in logarithms, and lanes and slots
  // are those of the larger; outside, the time continues the line through the outermost two, and lanes and slots are
  // the outermost one's.
  Point at(std::size_t bytes) const;
  friend bool operator==(const Table&, const Table&) = default;
};

struct Profile {
  Machine machine;                  // where it was measured
  std::string memory = "ordinary";  // or "threads": the ranks were threads, which reach each other's buffers
  int usable_cores = 0;             // that the ranks had
  std::vector<Table> tables;
  std::string file;  // where it came from, for people; empty: not from a file

  const Table* find(std::string_view collective, std::string_view algorithm, int ranks) const;
  // The one whose number of ranks is nearest, by ratio; of two the smaller.
  const Table* nearest(std::string_view collective, std::string_view algorithm, int ranks) const;
  // With only those that `ranks` ranks need.
  Profile reduced_to(int ranks) const;
  friend bool operator==(const Profile&, const Profile&) = default;
};

inline constexpr std::size_t kMostPoints = 64;  // of a table
inline constexpr int kMostMeasuredRanks = 512;

// The JSON text. parse_profile(to_text(p), ...) == p, but for `file`.
std::string to_text(const Profile& profile);
// Throws Error(invalid_argument) that names the source, the line or field, the value, and what is valid.
Profile parse_profile(std::string_view text, const std::string& source);

// TUTTI_PROFILE, else $XDG_CONFIG_HOME/tutti/profile-<hostname>.json, else the same under ~/.config; empty when there
// is no such place or TUTTI_PROFILE is "none".
std::string profile_path();
// The profile of this machine; an empty one when there is no file. Errors as parse_profile.
Profile load_profile(const std::string& path = profile_path());
// One sentence that names both machines when the profile was measured on another; else empty.
std::string mismatch(const Profile& profile, const Machine& here);
// Writes to a temporary file beside it and renames, so that readers see the old or the new file, never half of one.
void save_profile(const Profile& profile, const std::string& path = profile_path());

}  // namespace tutti::planner

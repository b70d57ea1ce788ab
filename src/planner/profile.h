// A machine's measured profile: per algorithm and rank count, the line (alpha + beta x bytes) that its measured times
// fit best. It replaces the planner's built-in cost of that algorithm. `tutti tune` and `tutti compare` make profiles.
//
// A file is JSON: {"version": 1, "host": "name",
//                  "algorithms": [{"algorithm": "ring", "ranks": 4, "alpha_us": 3.2, "beta_us_per_byte": 1.1e-4}, ...]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::planner {

struct Profile {
  struct Entry {
    std::string collective = "all_reduce";  // as tutti::name_of spells it
    std::string algorithm;
    int ranks = 0;
    double alpha_us = 0;          // of a call of no bytes
    double beta_us_per_byte = 0;  // of the call's bytes (count x element size)
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::string host;  // where it was measured, for people
  std::vector<Entry> entries;

  const Entry* find(std::string_view collective, std::string_view algorithm, int ranks) const;
  friend bool operator==(const Profile&, const Profile&) = default;
};

// The JSON text. parse_profile(to_text(p), ...) == p.
std::string to_text(const Profile& profile);
// Throws Error(invalid_argument) that names the source, the line or field, the value, and what is valid.
Profile parse_profile(std::string_view text, const std::string& source);

// TUTTI_PROFILE, else $XDG_CONFIG_HOME/tutti/profile-<hostname>.json, else the same under ~/.config.
std::string profile_path();
// The profile of this machine; an empty one when there is no file. Errors as parse_profile; TUTTI_PROFILE naming a file
// that does not exist is an Error as well, unless `tutti tune` is about to write it.
Profile load_profile(const std::string& path = profile_path());
// Writes to a temporary file beside it and renames, so that readers see the old or the new file, never half of one.
void save_profile(const Profile& profile, const std::string& path = profile_path());

}  // namespace tutti::planner

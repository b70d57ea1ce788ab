// What the user wants used: TUTTI_ALGO and Config::algorithm.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/variant.h"

namespace tutti::planner {

// By algorithm: the way to run it. An algorithm that is not there may not be used.
using Forced = std::map<std::string, Variant>;

// Parses a name, a comma-separated list of names, or "^" and a list of names not to use; empty: every one of `valid`.
// Throws Error(invalid_argument) that names the value and the valid ones.
Forced parse_forced(const std::string& text, const std::vector<std::string>& valid);

}  // namespace tutti::planner

// What reading a profile's text and reading its file have in common.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::planner {

inline constexpr std::size_t kMostProfileBytes = std::size_t{1} << 20;

// Throws Error(invalid_argument) that names the source and what to do about it.
[[noreturn]] void refuse_profile(const std::string& source, const std::string& what);

}  // namespace tutti::planner

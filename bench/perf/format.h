// printf into a string, for tables and pictures.
#pragma once

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace tutti::perf {

// At most 511 characters; the rest is cut off.
__attribute__((format(printf, 1, 2))) inline std::string format(const char* pattern, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

}  // namespace tutti::perf

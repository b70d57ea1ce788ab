#include "src/base/variables.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "src/base/log.h"

namespace tutti::base {
namespace {

// The fewest letters to insert, drop, change or swap with the next one to make one text of the other, whatever their
// case (Damerau and Levenshtein, optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  const auto same = [&](std::size_t i, std::size_t j) { return std::toupper(a[i - 1]) == std::toupper(b[j - 1]); };
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const std::size_t changed = least[i - 1][j - 1] + (same(i, j) ? 0 : 1);
      least[i][j] = std::min({changed, least[i - 1][j] + 1, least[i][j - 1] + 1});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j))
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  return least[a.size()][b.size()];
}

std::string_view nearest(std::string_view name) {
  return *std::min_element(kVariables.begin(), kVariables.end(), [name](std::string_view a, std::string_view b) {
    return distance(name, a) < distance(name, b);
  });
}

}  // namespace

std::vector<std::string> complaints_about_variables(const char* const* environment) {
  constexpr std::size_t kLongestName = 100;  // of one that could be a misspelling
  std::vector<std::string> complaints;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, std::min(entry.find('='), kLongestName));
    if (!name.starts_with("TUTTI_") || std::find(kVariables.begin(), kVariables.end(), name) != kVariables.end())
      continue;
    complaints.push_back("the environment variable " + std::string(name) + " is none of this library's; did you mean " +
                         std::string(nearest(name)) + "?");
  }
  return complaints;
}

void warn_of_unknown_variables() {
  static const bool warned = [] {
    for (const std::string& complaint : complaints_about_variables(environ)) log(LogLevel::warn, complaint);
    return true;
  }();
  static_cast<void>(warned);
}

}  // namespace tutti::base

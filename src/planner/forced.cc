#include "src/planner/forced.h"

#include <algorithm>
#include <cctype>

#include "tutti/error.h"

namespace tutti::planner {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Without blanks around it, in lower case.
std::string tidied(std::string text) {
  text.erase(0, text.find_first_not_of(" \t"));
  text.erase(text.find_last_not_of(" \t") + 1);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

Forced parse_forced(const std::string& text, const std::vector<std::string>& valid) {
  Forced all, named;
  for (const std::string& name : valid) all[name].algorithm = name;
  if (text.empty()) return all;
  const auto refuse = [&](const std::string& what) {
    const std::string value = text.size() > 60 ? text.substr(0, 60) + "..." : text;
    throw Error(ErrorCode::invalid_argument, "TUTTI_ALGO (or the forced algorithm) is '" + value + "': " + what +
                                                 "; valid: " + joined(valid) +
                                                 ", a comma-separated list of them, or ^ and a list not to use");
  };
  const bool exclude = text.front() == '^';
  for (std::size_t begin = exclude; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = tidied(text.substr(begin, end - begin));
    Variant variant;
    variant.algorithm = algorithm_of(item);
    if (!all.contains(variant.algorithm))
      refuse(variant.algorithm.empty() ? "a name is empty" : "there is no algorithm of that name");
    const std::string suffix = item.substr(variant.algorithm.size());
    if (exclude && !suffix.empty()) refuse("what is not to be used is named without lanes and slots");
    if (const std::string wrong = parse_suffix(suffix, variant); !wrong.empty()) refuse(wrong);
    if (const auto before = named.find(variant.algorithm); before != named.end() && before->second != variant)
      refuse(variant.algorithm + " is there twice, with different lanes or slots");
    named[variant.algorithm] = variant;
    begin = end + 1;
  }
  if (!exclude) return named;
  for (const auto& [name, variant] : named) all.erase(name);
  if (all.empty()) refuse("it leaves no algorithm");
  return all;
}

}  // namespace tutti::planner

// Flags that take whole numbers. CLI11's own reading of unsigned ones takes "-1" for 2^64 - 1 and "010" for 8; these
// take decimal digits only, and what they refuse ends in one sentence with flag, value and valid values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "tools/tutti/schedule_flags.h"

namespace tutti::tools {

// `target` is an integer or an optional one, and holds every number from `low` to `high`.
template <class Target>
CLI::Option* add_number(CLI::App& command, const std::string& name, Target& target, std::uint64_t low,
                        std::uint64_t high, const std::string& help) {
  const auto read = [&target, name, low, high](const std::string& text) {
    const std::uint64_t number = flag([&] { return base::parse_unsigned(name, text, low, high); });
    if constexpr (requires { target.emplace(number); })
      target = static_cast<typename Target::value_type>(number);
    else
      target = static_cast<Target>(number);
  };
  return command.add_option_function<std::string>(name, read, help)->type_name("N");
}

// Several of them, separated by commas.
template <class Number>
CLI::Option* add_numbers(CLI::App& command, const std::string& name, std::vector<Number>& target, std::uint64_t low,
                         std::uint64_t high, const std::string& help) {
  const auto read = [&target, name, low, high](const std::vector<std::string>& texts) {
    target.clear();
    for (const std::string& text : texts)
      target.push_back(static_cast<Number>(flag([&] { return base::parse_unsigned(name, text, low, high); })));
  };
  return command.add_option_function<std::vector<std::string>>(name, read, help)->delimiter(',')->type_name("N,...");
}

}  // namespace tutti::tools

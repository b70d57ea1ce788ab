#include "src/base/env.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "tutti/error.h"

namespace tutti::base {
namespace {

[[noreturn]] void reject(std::string_view source, std::string_view text, const std::string& valid) {
  throw Error(ErrorCode::invalid_argument, std::string(source) + " is '" + std::string(text) + "'; valid: " + valid);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

template <class Number>
Number parse_whole(std::string_view source, std::string_view text, Number low, Number high) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    reject(source, text, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

struct NumberAndUnit {
  double number;
  std::string unit;  // lower case
};

// Splits "1.5M"; nothing unless a finite non-negative number comes first.
std::optional<NumberAndUnit> split_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0 || std::signbit(number)) return std::nullopt;
  return NumberAndUnit{number, lower(text.substr(static_cast<std::size_t>(end - text.data())))};
}

}  // namespace

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::int64_t parse_integer(std::string_view source, std::string_view text, std::int64_t low, std::int64_t high) {
  return parse_whole(source, text, low, high);
}

std::uint64_t parse_unsigned(std::string_view source, std::string_view text, std::uint64_t low, std::uint64_t high) {
  return parse_whole(source, text, low, high);
}

std::size_t parse_bytes(std::string_view source, std::string_view text) {
  const std::string valid = "a number of bytes, with K, M or G for powers of 1024 (64, 4K, 1.5M, 2G)";
  const auto parts = split_number(text);
  if (!parts) reject(source, text, valid);
  static constexpr std::array<std::pair<std::string_view, double>, 13> kUnits{{{"", 1},
                                                                               {"b", 1},
                                                                               {"k", 0x1p10},
                                                                               {"kb", 0x1p10},
                                                                               {"kib", 0x1p10},
                                                                               {"m", 0x1p20},
                                                                               {"mb", 0x1p20},
                                                                               {"mib", 0x1p20},
                                                                               {"g", 0x1p30},
                                                                               {"gb", 0x1p30},
                                                                               {"gib", 0x1p30},
                                                                               {"t", 0x1p40},
                                                                               {"tib", 0x1p40}}};
  for (const auto& [unit, factor] : kUnits) {
    if (parts->unit != unit) continue;
    const double bytes = parts->number * factor;
    if (bytes > 0x1p53 || bytes != std::floor(bytes)) break;
    return static_cast<std::size_t>(bytes);
  }
  reject(source, text, valid);
}

std::chrono::milliseconds parse_duration(std::string_view source, std::string_view text) {
  const std::string valid = "a duration (500ms, 10s, 5min, 2h; a bare number is seconds), at most 1000h";
  const auto parts = split_number(text);
  if (!parts) reject(source, text, valid);
  static constexpr std::array<std::pair<std::string_view, double>, 6> kUnits{
      {{"", 1e3}, {"s", 1e3}, {"ms", 1}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}}};
  for (const auto& [unit, factor] : kUnits) {
    if (parts->unit != unit) continue;
    const double ms = parts->number * factor;
    if (ms > 3600e6) break;
    return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
  }
  reject(source, text, valid);
}

std::string parse_choice(std::string_view source, std::string_view text, const std::vector<std::string>& valid) {
  std::string list;
  for (const std::string& choice : valid) {
    if (lower(choice) == lower(text)) return choice;
    list += (list.empty() ? "" : ", ") + choice;
  }
  reject(source, text, list);
}

std::string format_bytes(std::size_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value == std::floor(value) ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

}  // namespace tutti::base

// Reading and checking text that users give: environment variables, sizes, durations, numbers.
// Every parser throws Error(invalid_argument) that names the source ("TUTTI_TIMEOUT"), the value and what is valid.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::base {

// The variable's value; nothing when it is unset or empty.
std::optional<std::string> env(const char* name);

// A whole number in [low, high], decimal digits only (and a leading minus).
std::int64_t parse_integer(std::string_view source, std::string_view text, std::int64_t low, std::int64_t high);

// The same without a sign, for numbers that need all 64 bits.
std::uint64_t parse_unsigned(std::string_view source, std::string_view text, std::uint64_t low, std::uint64_t high);

// Bytes: "64", "4K", "1.5M", "2GiB", upper or lower case; K, M and G are powers of 1024.
std::size_t parse_bytes(std::string_view source, std::string_view text);

// A duration: "500ms", "10s", "5min", "2h"; a bare number is seconds.
std::chrono::milliseconds parse_duration(std::string_view source, std::string_view text);

// One of `valid`, compared without regard to case; returns the spelling of `valid`.
std::string parse_choice(std::string_view source, std::string_view text, const std::vector<std::string>& valid);

// "4096" -> "4 KiB", for people.
std::string format_bytes(std::size_t bytes);

}  // namespace tutti::base

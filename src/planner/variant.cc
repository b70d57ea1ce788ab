#include "src/planner/variant.h"

#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::planner {
namespace {

// "65536" -> "64K"
std::string short_bytes(std::uint32_t bytes) {
  if (bytes > 0 && bytes % (1u << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes > 0 && bytes % (1u << 10) == 0) return std::to_string(bytes >> 10) + "K";
  return std::to_string(bytes);
}

}  // namespace

std::string parse_suffix(std::string_view text, Variant& variant) {
  if (text.empty()) return {};
  text.remove_prefix(1);
  try {
    const std::size_t end = text.find('/');
    variant.lanes = static_cast<int>(base::parse_integer("its number of lanes", text.substr(0, end), 1, kMostLanes));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
    const std::size_t times = text.find('x');
    if (times == std::string_view::npos)
      return "its slots are '" + std::string(text) + "'; valid: slots x bytes of one, such as 4x64K";
    variant.geometry.slots =
        static_cast<std::uint32_t>(base::parse_integer("its number of slots", text.substr(0, times), 1, kMostSlots));
    const std::size_t bytes = base::parse_bytes("its slot size", text.substr(times + 1));
    if (bytes == 0 || bytes > kMostSlotBytes || bytes % 64 != 0)
      return "its slot size is '" + std::string(text.substr(times + 1)) + "'; valid: multiples of 64, 64 to 16M";
    variant.geometry.slot_bytes = static_cast<std::uint32_t>(bytes);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string to_text(const Variant& variant) {
  std::string text = variant.algorithm;
  if (variant.lanes == 0) return text;
  text += "/" + std::to_string(variant.lanes);
  if (variant.geometry.slots == 0) return text;
  return text + "/" + std::to_string(variant.geometry.slots) + "x" + short_bytes(variant.geometry.slot_bytes);
}

std::string algorithm_of(std::string_view variant) { return std::string(variant.substr(0, variant.find('/'))); }

}  // namespace tutti::planner

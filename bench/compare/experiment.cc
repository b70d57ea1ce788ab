#include "bench/compare/experiment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/perf/statistics.h"
#include "src/base/env.h"
#include "tutti/error.h"

namespace tutti::compare {
namespace {

constexpr std::size_t kMaxSizes = 1000;
constexpr int kMaxRanks = 1024;

[[noreturn]] void reject(std::string_view source, std::string_view text, const std::string& valid) {
  throw Error(ErrorCode::invalid_argument, std::string(source) + " is '" + std::string(text) + "'; valid: " + valid);
}

// FROM:TO:xFACTOR or FROM:TO:+STEP
std::vector<std::size_t> parse_range(std::string_view source, std::string_view text,
                                     const std::vector<std::string>& parts, const std::string& valid) {
  if (parts.size() != 3 || parts[2].size() < 2) reject(source, text, valid);
  const std::size_t from = base::parse_bytes(source, parts[0]), to = base::parse_bytes(source, parts[1]);
  const char kind = parts[2][0];
  const std::string amount = parts[2].substr(1);
  if (kind != 'x' && kind != '+') reject(source, text, valid);
  const std::size_t step = kind == 'x' ? static_cast<std::size_t>(base::parse_integer(source, amount, 2, 1 << 20))
                                       : base::parse_bytes(source, amount);
  if (from == 0 || to < from || step == 0)
    reject(source, text, valid + "; the first size at least 1, the last not less");
  std::vector<std::size_t> sizes;
  for (std::size_t size = from; size <= to && sizes.size() <= kMaxSizes; size = kind == 'x' ? size * step : size + step)
    sizes.push_back(size);
  return sizes;
}

}  // namespace

double Cell::median_us() const { return perf::median(round_us); }
double Cell::quartile_us(double q) const { return perf::quantile(round_us, q); }
double Cell::spread() const {
  const double middle = median_us();
  return middle > 0 ? perf::interquartile_range(round_us) / middle : 0;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<std::size_t> parse_sizes(std::string_view source, std::string_view text) {
  const std::string valid = "FROM:TO:xFACTOR (8:64M:x4), FROM:TO:+STEP (1M:4M:+1M) or a list (8,1K,1M)";
  const std::vector<std::string> parts = split(text, ':');
  std::vector<std::size_t> sizes;
  if (parts.size() > 1)
    sizes = parse_range(source, text, parts, valid);
  else
    for (const std::string& part : split(text, ',')) sizes.push_back(base::parse_bytes(source, part));
  if (sizes.size() > kMaxSizes) reject(source, text, "at most " + std::to_string(kMaxSizes) + " sizes");
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.front() == 0) reject(source, text, valid + "; sizes of at least 1");
  return sizes;
}

std::vector<int> parse_ranks(std::string_view source, std::string_view text) {
  std::vector<int> ranks;
  for (const std::string& part : split(text, ','))
    ranks.push_back(static_cast<int>(base::parse_integer(source, part, 1, kMaxRanks)));
  return ranks;
}

std::string to_json_text(const Outcome& outcome) {
  nlohmann::json cells = nlohmann::json::array();
  for (const auto& row : outcome.cells) {
    nlohmann::json list = nlohmann::json::array();
    for (const Cell& cell : row) list.push_back({{"round_us", cell.round_us}, {"chosen", cell.chosen}});
    cells.push_back(list);
  }
  return nlohmann::json{
      {"ranks", outcome.ranks}, {"sizes", outcome.sizes}, {"algorithms", outcome.algorithms}, {"cells", cells}}
      .dump();
}

Outcome outcome_from_json_text(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Outcome outcome{json.at("ranks"), json.at("sizes"), json.at("algorithms"), {}};
    for (const auto& row : json.at("cells")) {
      outcome.cells.emplace_back();
      for (const auto& cell : row)
        outcome.cells.back().push_back(
            {cell.at("round_us").get<std::vector<double>>(), cell.at("chosen").get<std::string>()});
    }
    return outcome;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::internal_error, std::string("the ranks' results cannot be read: ") + error.what());
  }
}

}  // namespace tutti::compare

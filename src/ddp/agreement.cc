#include "src/ddp/agreement.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace tutti::ddp {
namespace {

// One number of T from every rank.
template <class T>
std::vector<T> gather(Group& group, std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  return all;
}

std::string describe(const Parameter& parameter) {
  std::string text = "'" + parameter.name + "' " + std::string(name_of(parameter.type)) + " [";
  for (std::size_t i = 0; i < parameter.shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(parameter.shape[i]);
  return text + (!parameter.trained() ? "] without gradient" : "]");
}

// The fault of this rank's own arguments; empty when there is none.
std::string find_fault(const std::vector<Parameter>& parameters) {
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : parameters) {
    if (parameter.name.empty() || parameter.name.find('\0') != std::string::npos)
      return "a parameter's name is empty or holds a zero byte";
    if (!names.insert(parameter.name).second) return "two parameters are called '" + parameter.name + "'";
    if (parameter.type != DataType::float32 && parameter.type != DataType::float64)
      return "parameter " + describe(parameter) + " has a type that cannot be averaged; valid types: float, double";
    if (parameter.data == nullptr && parameter.count() > 0)
      return "parameter '" + parameter.name + "' has no data (null pointer)";
  }
  if (std::none_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.trained(); }))
    return "there is no parameter with a gradient: nothing to train";
  return {};
}

// The descriptions, one entry each, ended by zero bytes.
std::string serialize(const std::vector<Parameter>& parameters, const DdpOptions& options, const std::string& fault) {
  std::string text = fault.empty() ? "buckets of " + std::to_string(options.first_bucket_bytes) + " bytes, then " +
                                         std::to_string(options.bucket_bytes)
                                   : "!" + fault;
  text += '\0';
  for (const Parameter& parameter : parameters) (text += describe(parameter)) += '\0';
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> entries;
  for (std::size_t end; (end = text.find('\0')) != std::string_view::npos; text.remove_prefix(end + 1))
    entries.emplace_back(text.substr(0, end));
  return entries;
}

// The Error of a rank whose entries are not those of rank 0; nothing when they are.
void compare_with_first(const std::vector<std::string>& first, const std::vector<std::string>& other, int rank) {
  const std::string who = "rank " + std::to_string(rank);
  if (first[0] != other[0])
    throw Error(ErrorCode::invalid_usage, "Ddp: the options differ: rank 0 has " + first[0] + "; " + who + " has " +
                                              other[0] + ". Give every rank the same bucket sizes.");
  const std::size_t common = std::min(first.size(), other.size());
  for (std::size_t i = 1; i < common; ++i)
    if (first[i] != other[i])
      throw Error(ErrorCode::invalid_usage, "Ddp: parameter " + std::to_string(i - 1) + " differs: rank 0 has " +
                                                first[i] + ", " + who + " has " + other[i] +
                                                ". Register the same parameters in the same order on every rank.");
  if (first.size() != other.size()) {
    const bool first_has_more = first.size() > other.size();
    throw Error(ErrorCode::invalid_usage,
                "Ddp: rank 0 has " + std::to_string(first.size() - 1) + " parameters, " + who + " has " +
                    std::to_string(other.size() - 1) + "; " + (first_has_more ? who : "rank 0") + " lacks " +
                    (first_has_more ? first : other)[common] + ". Register the same parameters on every rank.");
  }
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u ^ bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t n = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    hash = (hash ^ word) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
    bytes = bytes.subspan(n);
  }
  return hash;
}

void check_agreement(Group& group, const std::vector<Parameter>& parameters, const DdpOptions& options) {
  const std::string fault = find_fault(parameters);
  const std::string mine = serialize(parameters, options, fault);
  const std::uint64_t summary[] = {mine.size(), checksum(std::as_bytes(std::span(mine))), fault.empty() ? 0u : 1u};
  const std::vector<std::uint64_t> summaries = gather<std::uint64_t>(group, summary);
  std::size_t longest = 0;
  bool agreed = true;
  for (std::size_t i = 0; i < summaries.size(); i += 3) {
    longest = std::max<std::size_t>(longest, summaries[i]);
    agreed = agreed && std::equal(summary, summary + 3, summaries.begin() + static_cast<std::ptrdiff_t>(i)) &&
             summaries[i + 2] == 0;
  }
  if (agreed) return;

  std::string padded = mine;
  padded.resize(longest);
  const std::vector<char> texts = gather<char>(group, padded);
  std::vector<std::vector<std::string>> entries;
  for (std::size_t r = 0; r < static_cast<std::size_t>(group.size()); ++r)
    entries.push_back(split({texts.data() + r * longest, summaries[r * 3]}));
  for (int r = 0; r < group.size(); ++r) {
    const std::string& head = entries[static_cast<std::size_t>(r)][0];
    if (head.starts_with('!'))
      throw Error(ErrorCode::invalid_argument, "Ddp: on rank " + std::to_string(r) + " " + head.substr(1) + ".");
  }
  for (int r = 1; r < group.size(); ++r) compare_with_first(entries[0], entries[static_cast<std::size_t>(r)], r);
  throw Error(ErrorCode::internal_error, "Ddp: the ranks' parameter lists have different hashes but equal texts.");
}

std::uint64_t check_values(Group& group, const std::vector<Parameter>& parameters) {
  std::vector<std::uint64_t> mine;
  for (const Parameter& parameter : parameters)
    mine.push_back(
        checksum({static_cast<const std::byte*>(parameter.data), parameter.count() * size_of(parameter.type)}));
  const std::vector<std::uint64_t> all = gather<std::uint64_t>(group, mine);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::vector<int> others;
    for (int r = 1; r < group.size(); ++r)
      if (all[static_cast<std::size_t>(r) * mine.size() + p] != all[p]) others.push_back(r);
    if (!others.empty())
      throw Error(ErrorCode::invalid_usage, "Ddp: the values of parameter '" + parameters[p].name + "' on " +
                                                list_ranks(others) + " are not those of rank 0. Something changed " +
                                                "them outside the common step: an update on some ranks only, or " +
                                                "optimisers with different settings.");
  }
  return checksum(std::as_bytes(std::span(mine)));
}

void report_missing_gradients(Group& group, const std::vector<Parameter>& parameters,
                              std::span<const std::uint8_t> missing) {
  constexpr int kTold = 16;
  const std::vector<std::uint8_t> all = gather<std::uint8_t>(group, missing);
  std::string text = "Ddp: at finish() some gradients had never been ready:";
  int lacking = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::vector<int> ranks;
    for (int r = 0; r < group.size(); ++r)
      if (all[static_cast<std::size_t>(r) * parameters.size() + p] != 0) ranks.push_back(r);
    if (ranks.empty()) continue;
    if (++lacking <= kTold) text += (lacking > 1 ? "; '" : " '") + parameters[p].name + "' on " + list_ranks(ranks);
  }
  if (lacking > kTold) text += "; and " + std::to_string(lacking - kTold) + " more";
  throw Error(ErrorCode::invalid_usage, text + ". Call gradient_ready() for every parameter in every backward pass, " +
                                            "with a gradient of zeros when the batch does not use it.");
}

}  // namespace tutti::ddp

#include "src/planner/planner.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "src/base/log.h"
#include "src/planner/geometry.h"
#include "src/planner/size_class.h"
#include "tutti/error.h"

namespace tutti::planner {
namespace {

using schedule::Builder;

constexpr int kLaneChoices[] = {1, 2};
// A variant with more lanes must promise this much, because more messages cost more than a model sees.
constexpr double kWorthMoreLanes = 0.95;
// Lanes share the bytes out; smaller calls have too few of them for a second lane to be worth looking at.
constexpr std::size_t kLanesFrom = std::size_t{64} << 10;

// A schedule that was built once, with what planning needs to know of it.
struct Built {
  explicit Built(schedule::Schedule made, const World& world)
      : schedule(std::make_shared<const schedule::Schedule>(std::move(made))),
        shape(*schedule),
        cost(measure(*schedule, world)) {}

  std::shared_ptr<const schedule::Schedule> schedule;
  schedule::MessageShape shape;
  RoundCost cost;
  std::optional<std::uint64_t> hash;  // worked out when a plan first uses it
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

struct Planner::Impl {
  // Plans of one value of force(). Elements of an unordered_map stay where they are.
  using Cache = std::unordered_map<std::uint64_t, Plan>;

  World world;
  std::span<const Builder> builders;
  std::set<std::string> allowed;  // names that plan() may use
  std::string forced;             // as given
  std::map<std::string, Cache> caches;
  Cache* cache = nullptr;
  std::map<std::tuple<const Builder*, int, int>, Built> built;  // by builder, lanes, root
  std::set<Collective> told;                                    // that a forced algorithm does not exist for them

  const Built& build(const Builder& builder, int lanes, int root) {
    if (!builder.rooted) root = 0;
    const auto key = std::tuple(&builder, lanes, root);
    if (const auto found = built.find(key); found != built.end()) return found->second;
    const schedule::Shape shape{.ranks = world.ranks, .order = world.order, .lanes = lanes, .root = root};
    return built.emplace(key, Built(builder.build(shape), world)).first->second;
  }

  // The best lanes and slots of one algorithm; nothing when no slots fit in the buffer limit.
  std::optional<Candidate> best_of(const Builder& builder, int root, std::size_t count, std::size_t element_bytes) {
    std::optional<Candidate> best;
    for (const int lanes : kLaneChoices) {
      if (lanes > 1 && count * element_bytes < kLanesFrom) continue;
      const Built& variant = build(builder, lanes, root);
      const auto min_slots = static_cast<std::uint32_t>(std::max(builder.min_slots, 1));
      for (const Geometry& slots :
           geometries(*variant.schedule, variant.shape, world, min_slots, count, element_bytes)) {
        Candidate candidate;
        candidate.algorithm = builder.name;
        candidate.lanes = lanes;
        candidate.slots = slots.slots;
        candidate.slot_bytes = slots.slot_bytes;
        candidate.rounds = variant.shape.rounds(slots.slot_bytes, count, element_bytes);
        candidate.slice_bytes = variant.shape.slice_elements(slots.slot_bytes, count, element_bytes) * element_bytes;
        candidate.cost = variant.cost.of(candidate.rounds, candidate.slice_bytes);
        candidate.predicted_us = candidate.cost.total();
        candidate.schedule = variant.schedule;
        const double bar = best && lanes > best->lanes ? kWorthMoreLanes : 1.0;
        if (!best || candidate.predicted_us < best->predicted_us * bar) best = std::move(candidate);
      }
    }
    if (!best) return best;
    if (const auto* entry = world.profile.find(name_of(builder.collective), builder.name, world.ranks)) {
      best->predicted_us = entry->alpha_us + entry->beta_us_per_byte * static_cast<double>(count * element_bytes);
      best->measured = true;
    }
    return best;
  }

  std::vector<Candidate> candidates(Collective collective, int root, int size_class, std::size_t element_bytes) {
    const std::size_t count = class_border(size_class) / element_bytes;
    std::vector<Candidate> found;
    for (const Builder& builder : builders)
      if (builder.collective == collective)
        if (auto candidate = best_of(builder, root, count, element_bytes)) found.push_back(std::move(*candidate));
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.predicted_us < b.predicted_us; });
    return found;
  }

  Plan make(Collective collective, int root, int size_class, std::size_t element_bytes) {
    std::vector<Candidate> all = candidates(collective, root, size_class, element_bytes);
    const auto named = [&](const std::string& name) { return allowed.contains(name); };
    const bool exists = std::any_of(builders.begin(), builders.end(), [&](const Builder& b) {
      return b.collective == collective && named(std::string(b.name));
    });
    auto chosen = all.begin();
    if (exists)
      chosen = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return named(c.algorithm); });
    else if (told.insert(collective).second)
      base::log(base::LogLevel::info, "the algorithm is to be '" + forced + "', which " +
                                          std::string(name_of(collective)) +
                                          " does not have; the planner chooses for it");
    if (chosen == all.end())
      throw Error(ErrorCode::invalid_argument,
                  "TUTTI_BUFFER_LIMIT is " + std::to_string(world.buffer_limit) + " bytes, too few for " +
                      std::string(name_of(collective)) + " on " + std::to_string(world.ranks) + " ranks with " +
                      (exists && allowed.size() == 1 ? "algorithm " + *allowed.begin() : "any algorithm") +
                      "; raise it (the default is 64 MiB)");
    Plan plan;
    plan.schedule = chosen->schedule;
    plan.slots = chosen->slots;
    plan.slot_bytes = chosen->slot_bytes;
    plan.predicted_us = chosen->predicted_us;
    for (auto other = all.begin(); other != all.end(); ++other)
      if (other != chosen) {
        plan.runner_up = other->algorithm;
        plan.runner_up_us = other->predicted_us;
        break;
      }
    for (auto& [key, variant] : built)
      if (variant.schedule == plan.schedule) {
        plan.shape = variant.shape;
        if (!variant.hash) variant.hash = hash_of(*plan.schedule);
        plan.id = plan_id(*variant.hash, plan.slots, plan.slot_bytes);
      }
    return plan;
  }

  int class_of_call(DataType type, std::size_t count) const {
    const std::size_t bytes = size_of(type);
    if (count > class_border(kLastClass) / bytes / static_cast<std::size_t>(world.ranks))
      throw Error(ErrorCode::invalid_argument, "a count of " + std::to_string(count) + " is too large for " +
                                                   std::to_string(world.ranks) + " ranks");
    return class_of(count * bytes);
  }

  void check_root(int root) const {
    if (root < 0 || root >= world.ranks)
      throw Error(ErrorCode::invalid_argument,
                  "root is " + std::to_string(root) + "; valid: 0 to " + std::to_string(world.ranks - 1));
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> names;
    for (const Builder& builder : builders)
      if (std::find(names.begin(), names.end(), builder.name) == names.end()) names.emplace_back(builder.name);
    return names;
  }

  std::set<std::string> parse_names(const std::string& text) const {
    const std::vector<std::string> valid = all_names();
    const std::set<std::string> all(valid.begin(), valid.end());
    if (text.empty()) return all;
    const auto refuse = [&](const std::string& what) {
      const std::string value = text.size() > 60 ? text.substr(0, 60) + "..." : text;
      throw Error(ErrorCode::invalid_argument, "TUTTI_ALGO (or the forced algorithm) is '" + value + "': " + what +
                                                   "; valid: " + joined(valid) +
                                                   ", a comma-separated list of them, or ^ and a list not to use");
    };
    const bool exclude = text.front() == '^';
    std::set<std::string> named;
    for (std::size_t begin = exclude; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      std::string name = lower(text.substr(begin, end - begin));
      name.erase(0, name.find_first_not_of(" \t"));
      name.erase(name.find_last_not_of(" \t") + 1);
      if (!all.contains(name)) refuse(name.empty() ? "a name is empty" : "there is no algorithm of that name");
      named.insert(name);
      begin = end + 1;
    }
    if (!exclude) return named;
    std::set<std::string> left;
    std::set_difference(all.begin(), all.end(), named.begin(), named.end(), std::inserter(left, left.end()));
    if (left.empty()) refuse("it leaves no algorithm");
    return left;
  }
};

Planner::Planner(World world, std::span<const Builder> builders) : impl_(std::make_unique<Impl>()) {
  check(world);
  impl_->world = std::move(world);
  impl_->builders = builders;
  force(impl_->world.forced_algorithm);
}

Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

const World& Planner::world() const { return impl_->world; }

const Plan& Planner::plan(Collective collective, DataType type, ReduceOp, int root, std::size_t count) {
  const int size_class = impl_->class_of_call(type, count);
  const std::size_t element_bytes = size_of(type);
  const std::uint64_t key = std::uint64_t(collective) << 56 | std::uint64_t(element_bytes) << 48 |
                            std::uint64_t(size_class) << 32 | static_cast<std::uint32_t>(root);
  if (const auto found = impl_->cache->find(key); found != impl_->cache->end()) return found->second;
  impl_->check_root(root);
  return impl_->cache->emplace(key, impl_->make(collective, root, size_class, element_bytes)).first->second;
}

std::vector<Candidate> Planner::candidates(Collective collective, DataType type, ReduceOp, int root,
                                           std::size_t count) {
  impl_->check_root(root);
  return impl_->candidates(collective, root, impl_->class_of_call(type, count), size_of(type));
}

std::vector<std::string> Planner::algorithms(Collective collective) const {
  std::vector<std::string> names;
  for (const Builder& builder : impl_->builders)
    if (builder.collective == collective) names.emplace_back(builder.name);
  return names;
}

void Planner::force(const std::string& names) {
  impl_->allowed = impl_->parse_names(names);
  impl_->forced = names;
  impl_->cache = &impl_->caches[names];
}

}  // namespace tutti::planner

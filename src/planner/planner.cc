#include "src/planner/planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "src/base/log.h"
#include "src/planner/forced.h"
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

}  // namespace

struct Planner::Impl {
  // Plans of one value of force(). Elements of an unordered_map stay where they are.
  using Cache = std::unordered_map<std::uint64_t, Plan>;

  World world;
  std::span<const Builder> builders;
  Forced allowed;      // what plan() may use
  std::string forced;  // as given
  std::map<std::string, Cache> caches;
  Cache* cache = nullptr;
  std::map<std::tuple<const Builder*, int, int>, Built> built;  // by builder, lanes, root
  std::map<std::tuple<const Builder*, int, int>, Built> there;  // by builder, lanes, ranks: where the profile was made
  std::set<Collective> told;                                    // that a forced algorithm does not exist for them

  const Built& build(const Builder& builder, int lanes, int root) {
    if (!builder.rooted) root = 0;
    const auto key = std::tuple(&builder, lanes, root);
    if (const auto found = built.find(key); found != built.end()) return found->second;
    const schedule::Shape shape{.ranks = world.ranks, .order = world.order, .lanes = lanes, .root = root};
    return built.emplace(key, Built(builder.build(shape), world)).first->second;
  }

  // What the built-in costs say of one way to run a call of `count` elements.
  static Candidate candidate_of(const Builder& builder, const Built& variant, int lanes, Geometry slots,
                                std::size_t count, std::size_t element_bytes) {
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
    return candidate;
  }

  static std::uint32_t min_slots(const Builder& builder) {
    return static_cast<std::uint32_t>(std::max(builder.min_slots, 1));
  }

  bool has_room(const Builder& builder, const Built& variant, Geometry slots, std::size_t count,
                std::size_t element_bytes) const {
    return fits(*variant.schedule, variant.shape, world, min_slots(builder), count, element_bytes, slots);
  }

  // The best way to run one algorithm by the built-in costs, within what `wish` says; nothing when no slots fit.
  std::optional<Candidate> modelled(const Builder& builder, const Variant& wish, int root, std::size_t count,
                                    std::size_t element_bytes) {
    std::optional<Candidate> best;
    // A second lane works while the first one waits; ranks that share a core do that for each other.
    const bool one_lane = count * element_bytes < kLanesFrom || world.ranks_per_core() > 1;
    for (const int lanes : kLaneChoices) {
      if (wish.lanes != 0 ? lanes != wish.lanes : lanes > 1 && one_lane) continue;
      const Built& variant = build(builder, lanes, root);
      std::vector<Geometry> choices;
      if (wish.geometry.slots == 0)
        choices = geometries(*variant.schedule, variant.shape, world, min_slots(builder), count, element_bytes);
      else if (has_room(builder, variant, wish.geometry, count, element_bytes))
        choices = {wish.geometry};
      for (const Geometry& slots : choices) {
        Candidate candidate = candidate_of(builder, variant, lanes, slots, count, element_bytes);
        const double bar = best && lanes > best->lanes ? kWorthMoreLanes : 1.0;
        if (!best || candidate.predicted_us < best->predicted_us * bar) best = std::move(candidate);
      }
    }
    return best;
  }

  // What the profile says of one algorithm; nothing when it says nothing. It speaks of one host.
  std::optional<Candidate> measured(const Builder& builder, int root, std::size_t count, std::size_t element_bytes) {
    if (world.ranks_of_fullest_host() != world.ranks) return {};
    const Table* table = world.profile.nearest(name_of(builder.collective), builder.name, world.ranks);
    if (table == nullptr) return {};
    const Point point = table->at(count * element_bytes);
    const Built& variant = build(builder, point.lanes, root);
    std::optional<Candidate> found;
    if (has_room(builder, variant, point.geometry, count, element_bytes))
      found = candidate_of(builder, variant, point.lanes, point.geometry, count, element_bytes);
    else
      found = modelled(builder, {}, root, count, element_bytes);
    if (!found) return {};
    const double scale = scale_from(builder, *table, point, found->cost.total(), count, element_bytes);
    found->predicted_us = point.us * scale;
    found->basis = scale == 1 ? Basis::measured : Basis::scaled;
    found->measured_ranks = table->ranks;
    return found;
  }

  // What the model says that a call takes here, `here_us`, by what it says of the ranks and cores of the measurement.
  double scale_from(const Builder& builder, const Table& table, const Point& point, double here_us, std::size_t count,
                    std::size_t element_bytes) {
    World where;
    where.ranks = table.ranks;
    where.cores_per_host = world.profile.usable_cores;
    if (where.ranks == world.ranks && where.ranks_per_core() == world.ranks_per_core()) return 1;
    const auto key = std::tuple(&builder, point.lanes, table.ranks);
    auto found = there.find(key);
    if (found == there.end()) {
      const schedule::Shape shape{.ranks = table.ranks, .order = {}, .lanes = point.lanes, .root = 0};
      found = there.emplace(key, Built(builder.build(shape), where)).first;
    }
    const double there_us =
        candidate_of(builder, found->second, point.lanes, point.geometry, count, element_bytes).predicted_us;
    return there_us > 0 ? here_us / there_us : 1;
  }

  // The best way to run one algorithm; nothing when no slots fit in the buffer limit.
  std::optional<Candidate> best_of(const Builder& builder, int root, std::size_t count, std::size_t element_bytes) {
    const auto wish = allowed.find(std::string(builder.name));
    if (wish != allowed.end() && wish->second.lanes != 0)
      return modelled(builder, wish->second, root, count, element_bytes);
    if (auto found = measured(builder, root, count, element_bytes)) return found;
    return modelled(builder, {}, root, count, element_bytes);
  }

  std::vector<Candidate> candidates(Collective collective, int root, int size_class, std::size_t element_bytes) {
    const std::size_t count = class_border(size_class) / element_bytes;
    std::vector<Candidate> found;
    for (const Builder& builder : builders)
      if (builder.collective == collective)
        if (auto candidate = best_of(builder, root, count, element_bytes)) found.push_back(std::move(*candidate));
    sort(found);
    return found;
  }

  static void sort(std::vector<Candidate>& candidates) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.predicted_us < b.predicted_us; });
  }

  // What a call takes at least with this algorithm, as far as that is known before it is built.
  double least_of(const Builder& builder) const {
    return world.profile.tables.empty() && builder.cost.rounds != nullptr
               ? least_us(builder.cost.rounds(world.ranks), world)
               : 0;
  }

  // Candidates, best first, among which are the best that may be used and the best of the others. An algorithm that
  // cannot be one of them is not built: at many ranks that is most of the work.
  std::vector<Candidate> contenders(Collective collective, int root, int size_class, std::size_t element_bytes) {
    const std::size_t count = class_border(size_class) / element_bytes;
    struct Entry {
      const Builder* builder;
      double least_us;
      std::optional<Candidate> candidate;
    };
    std::vector<Entry> entries;
    for (const Builder& builder : builders)
      if (builder.collective == collective) entries.push_back({&builder, least_of(builder), {}});
    std::vector<Entry*> order;
    for (Entry& entry : entries) order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(),
                     [](const Entry* a, const Entry* b) { return a->least_us < b->least_us; });
    const auto usable = [this](const Entry& entry) { return allowed.contains(std::string(entry.builder->name)); };
    const bool any_usable = std::any_of(entries.begin(), entries.end(), usable);
    for (Entry* entry : order) {
      int better = 0;
      bool usable_better = !any_usable;
      for (const Entry& other : entries)
        if (other.candidate && other.candidate->predicted_us < entry->least_us) {
          ++better;
          usable_better = usable_better || usable(other);
        }
      if (better < 2 || !usable_better) entry->candidate = best_of(*entry->builder, root, count, element_bytes);
    }
    std::vector<Candidate> found;
    for (Entry& entry : entries)
      if (entry.candidate) found.push_back(std::move(*entry.candidate));
    sort(found);
    return found;
  }

  Plan make(Collective collective, int root, int size_class, std::size_t element_bytes) {
    std::vector<Candidate> all = contenders(collective, root, size_class, element_bytes);
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
    if (chosen == all.end()) refuse_limit(collective, exists);
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

  [[noreturn]] void refuse_limit(Collective collective, bool exists) const {
    const std::string what =
        !exists || allowed.size() > 1 ? "any algorithm" : "algorithm " + to_text(allowed.begin()->second);
    throw Error(
        ErrorCode::invalid_argument,
        "TUTTI_BUFFER_LIMIT is " + std::to_string(world.buffer_limit) + " bytes, too few for " +
            std::string(name_of(collective)) + " on " + std::to_string(world.ranks) + " ranks with " + what +
            (what.find('/') == std::string::npos ? "" : " (one plan gets a quarter), or its slots are too small") +
            "; raise it (the default is 64 MiB)");
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
  const std::uint64_t key = key_of(collective, type, root, count);
  if (const auto found = impl_->cache->find(key); found != impl_->cache->end()) return found->second;
  impl_->check_root(root);
  Plan made = impl_->make(collective, root, impl_->class_of_call(type, count), size_of(type));
  return impl_->cache->emplace(key, std::move(made)).first->second;
}

std::uint64_t Planner::key_of(Collective collective, DataType type, int root, std::size_t count) const {
  const int size_class = impl_->class_of_call(type, count);
  return std::uint64_t(collective) << 56 | std::uint64_t(size_of(type)) << 48 | std::uint64_t(size_class) << 32 |
         static_cast<std::uint32_t>(root);
}

std::vector<Candidate> Planner::candidates(Collective collective, DataType type, ReduceOp, int root,
                                           std::size_t count) {
  impl_->check_root(root);
  return impl_->candidates(collective, root, impl_->class_of_call(type, count), size_of(type));
}

std::vector<Variant> Planner::variants(Collective collective, DataType type, std::size_t count) {
  const std::size_t element_bytes = size_of(type);
  count = class_border(impl_->class_of_call(type, count)) / element_bytes;
  std::vector<Variant> found;
  for (const Builder& builder : impl_->builders)
    for (const int lanes : kLaneChoices) {
      if (builder.collective != collective || (lanes > 1 && count * element_bytes < kLanesFrom)) continue;
      const Built& built = impl_->build(builder, lanes, 0);
      for (const Geometry& geometry : geometries_to_try(*built.schedule, built.shape, impl_->world,
                                                        Impl::min_slots(builder), count, element_bytes))
        found.push_back({std::string(builder.name), lanes, geometry});
    }
  return found;
}

std::vector<std::string> Planner::algorithms(Collective collective) const {
  std::vector<std::string> names;
  for (const Builder& builder : impl_->builders)
    if (builder.collective == collective) names.emplace_back(builder.name);
  return names;
}

void Planner::force(const std::string& names) {
  impl_->allowed = parse_forced(names, impl_->all_names());
  impl_->forced = names;
  impl_->cache = &impl_->caches[names];
}

}  // namespace tutti::planner

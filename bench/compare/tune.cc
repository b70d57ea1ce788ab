#include "bench/compare/tune.h"

#include <algorithm>
#include <map>
#include <set>

#include "bench/compare/bench.h"
#include "src/planner/planner.h"
#include "src/topology/topology.h"

namespace tutti::compare {
namespace {

constexpr double kHopeless = 2;        // times the best in its first turn: its other variants are not tried
constexpr double kMayBeBest = 1.4;     // times the best turn: gets no further rounds
constexpr std::size_t kFinalists = 3;  // variants of one algorithm
// From here on, variants keep their order from size to size, and calls are long: only the best of the size before.
constexpr std::size_t kSettled = std::size_t{8} << 20;

class Tuner {
 public:
  Tuner(perf::Peer& peer, const Tuning& tuning)
      : peer_(peer),
        tuning_(tuning),
        planner_(alone(peer.size())),
        bench_(peer, DataType::float32, ReduceOp::sum, tuning.sizes.back()),
        begin_us_(now_us()) {
    for (const std::size_t bytes : tuning.sizes)
      for (const std::string& variant : variants(bytes)) index_.try_emplace(variant, index_.size());
    outcome_.ranks = peer.size();
    outcome_.sizes = tuning.sizes;
    outcome_.algorithms.resize(index_.size());
    for (const auto& [variant, index] : index_) outcome_.algorithms[index] = variant;
    outcome_.algorithms.emplace_back(kAuto);
    index_[kAuto] = outcome_.forced();
    outcome_.cells.assign(outcome_.algorithms.size(), std::vector<Cell>(outcome_.sizes.size()));
  }

  void tune(std::size_t size) {
    bytes_ = outcome_.sizes[size], size_ = size;
    calls_.clear();
    std::map<std::string, std::vector<std::string>> by_algorithm;
    for (const std::string& variant : variants(bytes_)) by_algorithm[planner::algorithm_of(variant)].push_back(variant);
    first_turns(by_algorithm);
    std::vector<std::string> finalists = chosen_finalists(by_algorithm);
    finalists.emplace_back(kAuto);
    // Auto's cell got its calls_ here, not a turn: every figure of it is of a round.
    prepare(kAuto);
    const double share = static_cast<double>(size + 1) / static_cast<double>(outcome_.sizes.size());
    for (int round = 0; round < tuning_.rounds; ++round) {
      if (round > 0 && elapsed_s() > tuning_.budget_s * share) break;
      for (std::size_t i = 0; i < finalists.size(); ++i)
        turn(finalists[(i + static_cast<std::size_t>(round)) % finalists.size()]);
    }
  }

  Outcome finish() {
    peer_.force_algorithm("");
    return std::move(outcome_);
  }

 private:
  using Variants = std::map<std::string, std::vector<std::string>>;

  // Only what decides which variants there are: the same on every rank.
  static planner::World alone(int ranks) {
    planner::World world;
    world.ranks = ranks;
    return world;
  }

  std::vector<std::string> variants(std::size_t bytes) {
    std::vector<std::string> names;
    for (const planner::Variant& variant :
         planner_.variants(Collective::all_reduce, DataType::float32, bytes / size_of(DataType::float32)))
      names.push_back(to_text(variant));
    return names;
  }

  double elapsed_s() { return bench_.slowest(now_us() - begin_us_) * 1e-6; }

  Cell& cell(const std::string& variant) { return outcome_.cells[index_.at(variant)][size_]; }
  double time_of(const std::string& variant) { return cell(variant).median_us(); }

  // False when it does not fit the slot memory.
  bool prepare(const std::string& variant) {
    const std::string ran = bench_.select(variant, bytes_);
    if (ran.empty()) return false;
    if (verified_.insert(variant).second) bench_.verify(variant, bytes_);
    calls_[variant] = bench_.calls_for(bytes_, tuning_.turn_ms * 1e3);
    cell(variant).chosen = ran;
    return true;
  }

  void turn(const std::string& variant) {
    bench_.select(variant, bytes_);
    bench_.warm_up(bytes_);
    cell(variant).round_us.push_back(bench_.turn(bytes_, calls_.at(variant)));
  }

  void try_once(const std::string& variant) {
    if (prepare(variant)) turn(variant);
  }

  void first_turns(Variants& by_algorithm) {
    double best = 0;
    for (auto& [algorithm, list] : by_algorithm) {
      const std::vector<std::string>& before = order_[algorithm];
      for (std::size_t i = before.size(); i-- > 0;)  // those of the size before in front, the best first
        if (const auto found = std::find(list.begin(), list.end(), before[i]); found != list.end())
          std::rotate(list.begin(), found, found + 1);
      try_once(list.front());
      const double time = time_of(list.front());
      if (time > 0 && (best == 0 || time < best)) best = time;
    }
    for (auto& [algorithm, list] : by_algorithm) {
      const bool hopeless = time_of(list.front()) > kHopeless * best;
      const std::size_t most = bytes_ < kSettled || order_[algorithm].empty() ? list.size() : kFinalists;
      for (std::size_t i = 1; i < std::min(most, list.size()) && !hopeless; ++i)
        if (i < kFinalists || in_time()) try_once(list[i]);
      std::erase_if(list, [this](const std::string& variant) { return !cell(variant).measured(); });
      std::stable_sort(list.begin(), list.end(),
                       [this](const std::string& a, const std::string& b) { return time_of(a) < time_of(b); });
    }
  }

  bool in_time() {
    return elapsed_s() < tuning_.budget_s * static_cast<double>(size_ + 1) / static_cast<double>(outcome_.sizes.size());
  }

  std::vector<std::string> chosen_finalists(const Variants& by_algorithm) {
    double best = 0;
    for (const auto& [algorithm, list] : by_algorithm)
      if (!list.empty() && (best == 0 || time_of(list.front()) < best)) best = time_of(list.front());
    std::vector<std::string> finalists;
    for (const auto& [algorithm, list] : by_algorithm) {
      const std::size_t most = bytes_ < kSettled ? kFinalists : kFinalists - 1;
      for (std::size_t i = 0; i < std::min(most, list.size()); ++i)
        if (time_of(list[i]) <= kMayBeBest * best) finalists.push_back(list[i]);
      if (!list.empty()) order_[algorithm] = list;
    }
    return finalists;
  }

  perf::Peer& peer_;
  const Tuning& tuning_;
  planner::Planner planner_;
  Bench bench_;
  const double begin_us_;
  Outcome outcome_;
  std::map<std::string, std::size_t> index_;  // of a variant in the outcome
  std::set<std::string> verified_;
  Variants order_;  // by algorithm: what was tried at the size before, the best first
  // Of the size at hand:
  std::size_t bytes_ = 0, size_ = 0;
  std::map<std::string, int> calls_;
};

}  // namespace

Outcome measure_variants(perf::Peer& peer, const Tuning& tuning,
                         const std::function<void(const std::string&)>& progress) {
  // Ranks that share cores are left to the system, as they will be when the profile is used.
  if (peer.local_size() <= topology::usable_pus()) bind_to_core(peer.rank());
  Tuner tuner(peer, tuning);
  for (std::size_t size = 0; size < tuning.sizes.size(); ++size) {
    if (progress && peer.rank() == 0)
      progress(std::to_string(peer.size()) + " ranks: size " + std::to_string(size + 1) + " of " +
               std::to_string(tuning.sizes.size()));
    tuner.tune(size);
  }
  return tuner.finish();
}

}  // namespace tutti::compare

#include "bench/compare/measure.h"

#include "bench/compare/bench.h"
#include "src/base/env.h"
#include "src/planner/variant.h"

namespace tutti::compare {
namespace {

constexpr double kTurnUs = 8000;  // aim of one turn, touching and barriers included

// What is to be measured: names, which may say lanes and slots ("ring/2/4x64K"). Throws for names that do not exist.
std::vector<std::string> algorithms_of(perf::Peer& peer, const Experiment& experiment) {
  const std::vector<std::string> valid = peer.algorithms(Collective::all_reduce);
  if (experiment.algorithms.empty()) return valid;
  std::vector<std::string> chosen;
  for (const std::string& forced : experiment.algorithms) {
    if (forced == kAuto) continue;
    const std::string name = planner::algorithm_of(forced);
    chosen.push_back(base::parse_choice("--algos", name, valid) + forced.substr(name.size()));
  }
  return chosen;
}

}  // namespace

Outcome measure(perf::Peer& peer, const Experiment& experiment,
                const std::function<void(const std::string&)>& progress) {
  if (experiment.bind) bind_to_core(peer.rank());
  Bench bench(peer, experiment.type, experiment.op, experiment.sizes.back());
  Outcome outcome{peer.size(), experiment.sizes, algorithms_of(peer, experiment), {}};
  outcome.algorithms.emplace_back(kAuto);
  outcome.cells.assign(outcome.algorithms.size(), std::vector<Cell>(outcome.sizes.size()));
  std::vector<std::vector<int>> calls(outcome.algorithms.size(), std::vector<int>(outcome.sizes.size(), 0));
  const auto say = [&](const std::string& line) {
    if (progress && peer.rank() == 0) progress(line);
  };
  const auto for_each_cell = [&](int round, const auto& visit) {
    for (std::size_t s = 0; s < outcome.sizes.size(); ++s)
      for (std::size_t i = 0; i < outcome.algorithms.size(); ++i) {
        const std::size_t a = (i + static_cast<std::size_t>(round)) % outcome.algorithms.size();
        const std::string ran = bench.select(outcome.algorithms[a], outcome.sizes[s]);
        // The cell of an algorithm that cannot run at this size stays empty.
        if (outcome.algorithms[a] == kAuto || ran == planner::algorithm_of(outcome.algorithms[a])) visit(a, s, ran);
      }
  };
  say(std::to_string(peer.size()) + " ranks: checking " + std::to_string(outcome.algorithms.size()) +
      " algorithms at " + std::to_string(outcome.sizes.size()) + " sizes");
  for_each_cell(0, [&](std::size_t a, std::size_t s, const std::string& ran) {
    bench.verify(outcome.algorithms[a], outcome.sizes[s]);
    calls[a][s] = bench.calls_for(outcome.sizes[s], kTurnUs);
    outcome.cells[a][s].chosen = ran;
  });
  for (int round = 0; round < experiment.rounds; ++round) {
    say(std::to_string(peer.size()) + " ranks: round " + std::to_string(round + 1) + " of " +
        std::to_string(experiment.rounds));
    for_each_cell(round, [&](std::size_t a, std::size_t s, const std::string&) {
      bench.warm_up(outcome.sizes[s]);
      outcome.cells[a][s].round_us.push_back(bench.turn(outcome.sizes[s], calls[a][s]));
    });
  }
  for_each_cell(0, [&](std::size_t a, std::size_t s, const std::string&) {
    bench.verify(outcome.algorithms[a], outcome.sizes[s]);
  });
  peer.force_algorithm("");
  return outcome;
}

}  // namespace tutti::compare

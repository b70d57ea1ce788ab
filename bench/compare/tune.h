// What `tutti tune` does: finds the best lanes and slots of every algorithm at every size, and how long they take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/compare/experiment.h"
#include "bench/perf/peer.h"
#include "src/planner/profile.h"

namespace tutti::compare {

struct Tuning {
  std::vector<std::size_t> sizes;  // borders of size classes in bytes, ascending
  int rounds = 7;                  // at most, of those that may be the best
  double turn_ms = 8;              // aim of one turn, touching and barriers included
  double budget_s = 70;            // no further round begins after its share of it
};

// One rank's part; every rank calls it with the same tuning and gets the same outcome. The outcome's algorithms are
// variants ("ring/2/4x64K"); the cells of those that were not tried at a size are empty.
//
// At each size: one turn of every algorithm, as it was best at the size before; one turn of the other variants of those
// that are not hopeless; then rounds, by turns, of the few that may be the best and of the automatic choice. A turn is
// measured as measure() does it; ranks that fit the cores keep to one each. Results are checked when a variant is first
// used.
Outcome measure_variants(perf::Peer& peer, const Tuning& tuning,
                         const std::function<void(const std::string&)>& progress = {});

// The planner's tables of what was measured: of every algorithm and size its best variant, with the median of its
// rounds and, where they differ, a standard error on top. A variant keeps its place at the next size when it is as good
// as equal there, so that plans of many sizes share their slots.
std::vector<planner::Table> tables_of(const Outcome& outcome);

// For a terminal: what is chosen at each size, what comes next, and what is gained over the model's choice.
std::string tuning_text(const Outcome& outcome, const std::vector<planner::Table>& tables);

}  // namespace tutti::compare

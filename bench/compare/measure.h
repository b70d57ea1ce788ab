// One rank's part of a comparison.
#pragma once

#include <functional>
#include <string>

#include "bench/compare/experiment.h"
#include "bench/perf/peer.h"

namespace tutti::compare {

// Every rank calls it with the same experiment and gets the same outcome.
//
// For every size the algorithms take turns, A B C ... A B C ..., once a round, each turn a few calls long; the order
// rotates from round to round, so that whatever disturbs the machine disturbs all alike. Data is touched: every rank
// rewrites its whole input before and reads its whole output after each call, and only the call is timed; a turn's
// figure is the median over its calls of the slowest rank's time. Results are checked before the first and after the
// last round.
//
// `progress` gets a line now and then on rank 0. Throws Error(internal_error) when a result is wrong, and
// Error(invalid_argument) for an algorithm that does not exist or sizes that do not fit the memory.
Outcome measure(perf::Peer& peer, const Experiment& experiment,
                const std::function<void(const std::string&)>& progress = {});

}  // namespace tutti::compare

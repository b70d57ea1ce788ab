// One rank from its connection to its exit status.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/options.h"

namespace tutti::perf {

enum ExitStatus { kGood = 0, kFailed = 1, kUsageError = 2 };

// Measures, reports (rank 0 on `out`), and says on `err`, in one line, what went wrong on this rank. Never throws.
int run_rank(Peer& peer, const CollectiveUnderTest& collective, const Options& options,
             const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace tutti::perf

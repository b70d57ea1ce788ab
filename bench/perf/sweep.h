// One rank's whole run: header, every row, footer. Only rank 0 prints the table and writes the JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/json_report.h"
#include "bench/perf/options.h"

namespace tutti::perf {

// Refuses on every rank alike, before anything large is allocated, what this job cannot do: a root or an algorithm that
// does not exist, buffers that do not fit the memory. Throws Error(invalid_argument) and, where ranks must agree, talks
// to the others.
void check_job(Peer& peer, const CollectiveUnderTest& collective, const Options& options);

// Returns the totals, the same on every rank. `complaint` gets the first thing that was wrong on this rank.
Totals sweep(Peer& peer, const CollectiveUnderTest& collective, const Options& options, JsonReport& json,
             const std::string& program, std::ostream& out, std::string& complaint);

}  // namespace tutti::perf

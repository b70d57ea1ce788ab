// The three reports of a comparison.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/conditions.h"
#include "bench/compare/experiment.h"

namespace tutti::compare {

// Plain sentences: "With 2 ranks oneshot is fastest up to 3.1 KiB, then ring." One per number of ranks.
std::string summary(const Outcome& outcome);

// For a terminal: medians, the winner of each size, crossovers, fits, the automatic choice.
std::string report_text(const Outcome& outcome);

// One line per number of ranks, algorithm and size; RFC 4180.
std::string report_csv(const std::vector<Outcome>& outcomes, const Conditions& conditions);
std::string escape_csv(const std::string& field);

// A page that needs nothing else.
std::string report_html(const std::vector<Outcome>& outcomes, const Conditions& conditions);

// Writes `text`; throws Error(system_error) that names the path.
void write_file(const std::string& path, const std::string& text);

}  // namespace tutti::compare

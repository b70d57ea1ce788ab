#include <array>
#include <cstdio>

#include "bench/compare/analysis.h"
#include "bench/compare/report.h"

namespace tutti::compare {
namespace {

std::string number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

}  // namespace

std::string escape_csv(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string report_csv(const std::vector<Outcome>& outcomes, const Conditions& c) {
  std::string text =
      "ranks,algorithm,ran,bytes,type,op,median_us,q1_us,q3_us,rounds,bus_gb_per_s,winner,behind_best,host,cpu,date,"
      "version\n";
  for (const Outcome& outcome : outcomes)
    for (std::size_t a = 0; a < outcome.algorithms.size(); ++a)
      for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
        const Cell& cell = outcome.at(a, s);
        if (!cell.measured()) continue;
        const auto best = fastest(outcome, s);
        const std::vector<std::string> fields{
            std::to_string(outcome.ranks),
            outcome.algorithms[a],
            cell.chosen,
            std::to_string(outcome.sizes[s]),
            c.type,
            c.op,
            number(cell.median_us()),
            number(cell.quartile_us(0.25)),
            number(cell.quartile_us(0.75)),
            std::to_string(cell.round_us.size()),
            number(bus_bandwidth(outcome.sizes[s], cell.median_us(), outcome.ranks)),
            best && *best == a ? "1" : "0",
            best ? number(cell.median_us() / outcome.at(*best, s).median_us() - 1) : "",
            c.host,
            c.cpu,
            c.date,
            c.version};
        for (std::size_t i = 0; i < fields.size(); ++i) text += (i == 0 ? "" : ",") + escape_csv(fields[i]);
        text += "\n";
      }
  return text;
}

}  // namespace tutti::compare

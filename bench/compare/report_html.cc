#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "bench/compare/analysis.h"
#include "bench/compare/plot.h"
#include "bench/compare/report.h"

namespace tutti::compare {
namespace {

constexpr int kAutoColour = kPlotColours - 1;

constexpr const char* kPageStyle = R"css(
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 36px 0 10px; } h3 { font-size: 15px; margin: 0 0 8px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--faint); border-radius: 10px; padding: 16px 18px; margin: 14px 0; }
.summary p { font-size: 17px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 14px; }
.plots .card { margin: 0; padding: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 10px 2px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 4px 12px; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; padding-left: 2px; }
td.best { background: var(--lead); font-weight: 600; } td.text, th.text { text-align: left; }
td.behind { color: #c62828; font-weight: 600; } td.behind::after { content: " > 1.1"; font-weight: 400; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: 13px ui-monospace, monospace; }
@media (max-width: 600px) { dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
)css";

std::string percent(double ratio, bool sign) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), sign ? "%+.0f%%" : "%.0f%%", 100 * ratio);
  return text.data();
}

std::string cell(const std::string& text, const char* style = "") {
  return std::string("<td") + (*style != '\0' ? std::string(" class=\"") + style + "\"" : "") + ">" +
         escape_html(text) + "</td>";
}

int colour_of(const Outcome& outcome, std::size_t algorithm) {
  return algorithm == outcome.forced() ? kAutoColour : static_cast<int>(algorithm) % kAutoColour;
}

std::vector<PlotMark> crossover_marks(const Outcome& outcome) {
  std::vector<PlotMark> marks;
  const std::vector<Lead> list = leads(outcome);
  for (std::size_t i = 1; i < list.size(); ++i)
    marks.push_back({list[i].from_bytes,
                     outcome.algorithms[list[i - 1].algorithm] + " \u2192 " + outcome.algorithms[list[i].algorithm]});
  return marks;
}

std::vector<PlotBand> leader_bands(const Outcome& outcome) {
  std::vector<PlotBand> bands;
  const std::vector<Lead> list = leads(outcome);
  for (std::size_t i = 0; i < list.size(); ++i)
    bands.push_back({list[i].from_bytes,
                     i + 1 < list.size() ? list[i + 1].from_bytes : static_cast<double>(outcome.sizes.back()),
                     colour_of(outcome, list[i].algorithm)});
  return bands;
}

// The same points as times or as bus bandwidths.
Plot curves(const Outcome& outcome, bool bandwidth) {
  Plot plot{bandwidth ? "Bus bandwidth: higher is better" : "Time of a call: lower is better",
            bandwidth ? "GB/s (bytes / time x 2(n-1)/n)" : "microseconds (median)",
            {},
            crossover_marks(outcome),
            leader_bands(outcome)};
  for (std::size_t a = 0; a < outcome.algorithms.size(); ++a) {
    PlotSeries series{outcome.algorithms[a], colour_of(outcome, a), a == outcome.forced(), {}};
    for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
      const Cell& c = outcome.at(a, s);
      if (!c.measured()) continue;
      const std::size_t bytes = outcome.sizes[s];
      const double rate = bus_bandwidth(bytes, c.median_us(), outcome.ranks);
      std::string title = outcome.algorithms[a] + (a == outcome.forced() ? " (ran " + c.chosen + ")" : "") + ", " +
                          bytes_text(static_cast<double>(bytes)) + ": " + number_text(c.median_us()) + " us, " +
                          number_text(rate) + " GB/s; quartiles " + number_text(c.quartile_us(0.25)) + " to " +
                          number_text(c.quartile_us(0.75)) + " us";
      if (bandwidth)
        series.points.push_back({static_cast<double>(bytes), rate,
                                 bus_bandwidth(bytes, c.quartile_us(0.75), outcome.ranks),
                                 bus_bandwidth(bytes, c.quartile_us(0.25), outcome.ranks), std::move(title)});
      else
        series.points.push_back(
            {static_cast<double>(bytes), c.median_us(), c.quartile_us(0.25), c.quartile_us(0.75), std::move(title)});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string legend(const Outcome& outcome) {
  std::string html = "<div class=\"legend\">";
  for (std::size_t a = 0; a < outcome.algorithms.size(); ++a)
    html += "<span>" + legend_symbol(colour_of(outcome, a), a == outcome.forced()) +
            escape_html(outcome.algorithms[a]) + (a == outcome.forced() ? " (the planner's choice)" : "") + "</span>";
  return html + "<span class=\"soft\">the strip along the bottom shows who leads; bars are quartiles</span></div>\n";
}

std::string medians_table(const Outcome& outcome) {
  std::string html =
      "<div class=\"card\"><h3>Median time of a call in microseconds (spread)</h3><div class=\"scroll\">"
      "<table><tr><th>size</th>";
  for (const std::string& name : outcome.algorithms) html += "<th>" + escape_html(name) + "</th>";
  html += "<th class=\"text\">auto ran</th><th class=\"text\">fastest</th><th>auto / fastest</th></tr>\n";
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
    const auto best = fastest(outcome, s);
    html += "<tr>" + cell(bytes_text(static_cast<double>(outcome.sizes[s])));
    for (std::size_t a = 0; a < outcome.algorithms.size(); ++a) {
      const Cell& c = outcome.at(a, s);
      if (!c.measured()) {
        html += cell("-", "soft");
        continue;
      }
      html += std::string("<td") + (best && *best == a ? " class=\"best\"" : "") + ">" + number_text(c.median_us()) +
              " <span class=\"soft\">" + percent(c.spread(), false) + "</span></td>";
    }
    const auto ratio = auto_ratio(outcome, s);
    html += cell(outcome.at(outcome.forced(), s).chosen, "text") +
            cell(best ? outcome.algorithms[*best] : "-", "text") +
            cell(ratio ? number_text(*ratio) : "-", ratio && *ratio > kAllowedBehind ? "behind" : "") + "</tr>\n";
  }
  return html + "</table></div></div>\n";
}

std::string fits_table(const Outcome& outcome) {
  std::string html =
      "<div class=\"card\"><h3>What a call costs: time = alpha + bytes / beta</h3><div class=\"scroll\"><table><tr>"
      "<th>algorithm</th><th>alpha (us)</th><th>beta (GB/s)</th><th>error of the fit (rms)</th><th>worst</th></tr>\n";
  for (std::size_t a = 0; a < outcome.algorithms.size(); ++a) {
    const auto fit = fit_of(outcome, a);
    html += "<tr>" + cell(outcome.algorithms[a]);
    if (fit)
      html += cell(number_text(fit->alpha_us)) + cell(fit->us_per_byte > 0 ? number_text(fit->gb_per_s()) : "-") +
              cell(percent(fit->rms_error, false)) +
              cell(percent(fit->worst_error, true) + " at " + bytes_text(static_cast<double>(fit->worst_bytes)));
    else
      html += "<td colspan=\"4\" class=\"soft\">too few points</td>";
    html += "</tr>\n";
  }
  return html +
         "</table></div><p class=\"soft\">Alpha is what a call costs before its first byte, beta the rate at "
         "which its bytes move once they flow. The fit weighs relative errors, so that small messages count as "
         "much as large ones. A large error says that one line does not describe the algorithm: caches and "
         "changes of protocol bend it.</p></div>\n";
}

std::string section(const Outcome& outcome) {
  return "<section><h2>" + std::to_string(outcome.ranks) + (outcome.ranks == 1 ? " rank" : " ranks") + "</h2>\n" +
         legend(outcome) + "<div class=\"plots\"><div class=\"card\">" + to_svg(curves(outcome, false)) +
         "</div><div class=\"card\">" + to_svg(curves(outcome, true)) + "</div></div>\n" + medians_table(outcome) +
         fits_table(outcome) + "</section>\n";
}

}  // namespace

std::string report_html(const std::vector<Outcome>& outcomes, const Conditions& conditions) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><title>All-reduce algorithms compared</title><style>";
  html += std::string(kPlotStyle) + kPageStyle +
          "</style></head><body><main>\n<h1>All-reduce algorithms compared</h1>\n" + "<p class=\"soft\">" +
          escape_html(conditions.cpu) + ", " + std::to_string(conditions.cores) + " cores, " +
          escape_html(conditions.date) + "</p>\n<div class=\"card summary\">";
  for (const Outcome& outcome : outcomes) html += "<p>" + escape_html(summary(outcome)) + "</p>";
  html += "</div>\n";
  for (const Outcome& outcome : outcomes) html += section(outcome);
  html += "<h2>Conditions</h2><div class=\"card\"><dl>";
  for (const auto& [name, value] : listed(conditions)) {
    const bool command = name == "Command";
    html += "<dt>" + escape_html(name) + "</dt><dd>" + (command ? "<code>" : "") + escape_html(value) +
            (command ? "</code>" : "") + "</dd>";
  }
  return html + "</dl></div></main></body></html>\n";
}

}  // namespace tutti::compare

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>

#include "bench/compare/analysis.h"
#include "bench/compare/plot.h"
#include "bench/compare/report.h"
#include "src/base/error.h"

namespace tutti::compare {
namespace {

constexpr double kNoisy = 0.25;  // a typical spread above this is a disturbed measurement

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string left(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.0f%%", 100 * ratio);
  return text.data();
}

// Of the automatic choice; "+23% <<" where it is more than is allowed.
std::string behind(const std::optional<double>& ratio) {
  if (!ratio) return "-";
  return percent(*ratio - 1) + (*ratio > kAllowedBehind ? " <<" : "");
}

// At how many sizes the automatic choice is too far behind.
std::string marks(const Outcome& outcome) {
  std::size_t sizes = 0, marked = 0;
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s)
    if (const auto ratio = auto_ratio(outcome, s)) ++sizes, marked += *ratio > kAllowedBehind;
  if (marked == 0) return "";
  return "<<: more than 10% behind the best, at " + std::to_string(marked) + " of " + std::to_string(sizes) +
         " sizes\n";
}

std::string medians(const Outcome& outcome) {
  const std::size_t width = 11;
  std::string text = right("size", 10);
  for (const std::string& name : outcome.algorithms) text += "  " + right(name, std::max(width, name.size()));
  text += "   auto ran            winner              auto behind\n";
  for (std::size_t s = 0; s < outcome.sizes.size(); ++s) {
    text += right(bytes_text(static_cast<double>(outcome.sizes[s])), 10);
    for (std::size_t a = 0; a < outcome.algorithms.size(); ++a) {
      const Cell& cell = outcome.at(a, s);
      text += "  " + right(cell.measured() ? number_text(cell.median_us()) : "-",
                           std::max(width, outcome.algorithms[a].size()));
    }
    const auto best = fastest(outcome, s);
    text += "   " + left(outcome.at(outcome.forced(), s).chosen, 18) + "  " +
            left(best ? outcome.algorithms[*best] : "-", 18) + "  " + behind(auto_ratio(outcome, s)) + "\n";
  }
  return text;
}

std::string fits(const Outcome& outcome) {
  std::string text = "time = alpha + bytes / beta, fitted to the relative error:\n" + left("  algorithm", 22) +
                     right("alpha us", 10) + right("beta GB/s", 12) + right("rms error", 11) + "  worst\n";
  for (std::size_t a = 0; a < outcome.algorithms.size(); ++a) {
    const auto fit = fit_of(outcome, a);
    text += left("  " + outcome.algorithms[a], 22);
    if (!fit) {
      text += "  too few points\n";
      continue;
    }
    text += right(number_text(fit->alpha_us), 10) +
            right(fit->us_per_byte > 0 ? number_text(fit->gb_per_s()) : "-", 12) +
            right(percent(fit->rms_error).substr(1), 11) + "  " + percent(fit->worst_error) + " at " +
            bytes_text(static_cast<double>(fit->worst_bytes)) + "\n";
  }
  return text;
}

}  // namespace

std::string summary(const Outcome& outcome) {
  const std::string who = "With " + std::to_string(outcome.ranks) + (outcome.ranks == 1 ? " rank " : " ranks ");
  const std::vector<Lead> list = leads(outcome);
  if (list.empty()) return who + "nothing was measured.";
  std::string text = who + outcome.algorithms[list[0].algorithm] + " is fastest";
  for (std::size_t i = 1; i < list.size(); ++i)
    text += " up to " + bytes_text(list[i].from_bytes) + ", then " + outcome.algorithms[list[i].algorithm];
  text += list.size() == 1 ? " at every size." : ".";
  if (const auto gap = auto_gap(outcome)) {
    if (gap->worst_ratio <= kAllowedBehind)
      text += " The automatic choice is never more than " +
              number_text(std::max(0.0, std::ceil((gap->worst_ratio - 1) * 100))) + "% behind the best.";
    else
      text += " The automatic choice is up to " + number_text(std::round((gap->worst_ratio - 1) * 100)) +
              "% behind the best (at " + bytes_text(static_cast<double>(outcome.sizes[gap->worst_size])) + ").";
  }
  if (const double spread = typical_spread(outcome); spread > kNoisy)
    text += " Take this with care: the machine was busy, a figure typically varied by " +
            number_text(std::round(100 * spread)) + "% from round to round.";
  return text;
}

std::string report_text(const Outcome& outcome) {
  std::string text = "\n" + std::to_string(outcome.ranks) + " ranks: median us of a call\n" + medians(outcome) +
                     marks(outcome) + "\n" + summary(outcome) + "\n\n" + fits(outcome);
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) base::throw_errno("cannot write " + path);
}

}  // namespace tutti::compare

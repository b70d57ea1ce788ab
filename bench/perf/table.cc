#include "bench/perf/table.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "bench/perf/format.h"
#include "bench/perf/statistics.h"

namespace tutti::perf {
namespace {

// Three header lines grow together, column by column.
struct Header {
  std::string group, name, unit;
  void column(int width, const char* title, const char* units) {
    name += format("  %*s", width, title);
    unit += format("  %*s", width, units);
  }
};

void add_side(Header& header, const char* title, const Options& options) {
  const std::size_t begin = header.name.size();
  header.column(7, options.cpu_time ? "cputime" : "time", "(us)");
  header.column(6, "algbw", "(GB/s)");
  header.column(6, "busbw", "(GB/s)");
  header.column(6, "#wrong", "");
  if (options.per_iteration) {
    header.column(7, "i_min", "(us)");
    header.column(7, "i_max", "(us)");
    header.column(7, "i_p99", "(us)");
    header.column(7, "i_cv%", "(%)");
  }
  if (options.more) {
    header.column(7, "p50", "(us)");
    header.column(7, "p99", "(us)");
    header.column(7, "spread", "(%)");
  }
  const std::size_t width = header.name.size() - begin;
  const std::string text = title;
  const std::size_t left = (width - text.size()) / 2 + 1;
  header.group += std::string(left, ' ') + text + std::string(width - left - text.size(), ' ');
}

std::string side_columns(const Timing& timing, std::size_t bytes, const Options& options, double bus_factor) {
  const Bandwidth rate = bandwidth(bytes, timing.time_us, bus_factor);
  std::string text = "  " + fitted(timing.time_us, 7) + "  " + fitted(rate.algorithm, 6) + "  " + fitted(rate.bus, 6);
  text += options.check > 0 ? format("  %6g", timing.wrong) : format("  %6s", "N/A");
  if (timing.call_us.empty()) return text;
  const CallStatistics s = statistics_of(timing.call_us);
  if (options.per_iteration)
    text += "  " + fitted(s.min, 7) + "  " + fitted(s.max, 7) + "  " + fitted(s.p99, 7) + "  " +
            fitted(s.variation_percent(), 7);
  if (options.more) text += "  " + fitted(s.p50, 7) + "  " + fitted(s.p99, 7) + "  " + fitted(s.spread_percent, 7);
  return text;
}

// The columns of a side that there is not.
std::string no_side(const Options& options) {
  std::string text = format("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  for (int i = 0; options.per_iteration && i < 4; ++i) text += format("  %7s", "N/A");
  for (int i = 0; options.more && i < 3; ++i) text += format("  %7s", "N/A");
  return text;
}

}  // namespace

Bandwidth bandwidth(std::size_t bytes, double time_us, double bus_factor) {
  const double rate = time_us > 0 ? static_cast<double>(bytes) / time_us * 1e-3 : 0;
  return {rate, rate * bus_factor};
}

void Totals::add(const Row& row, double bus_factor) {
  for (const Timing* side : {&row.out_of_place, row.in_place ? &*row.in_place : nullptr}) {
    if (side == nullptr) continue;
    wrong += side->wrong;
    out_of_bounds += side->out_of_bounds;
    bus_bandwidth += bandwidth(row.reported_bytes, side->time_us, bus_factor).bus;
    ++sides;
  }
}

CallStatistics statistics_of(const std::vector<double>& call_us) {
  CallStatistics s{};
  s.min = quantile(call_us, 0), s.max = quantile(call_us, 1), s.mean = mean(call_us);
  s.p50 = quantile(call_us, 0.5), s.p95 = quantile(call_us, 0.95), s.p99 = quantile(call_us, 0.99);
  s.deviation = standard_deviation(call_us);
  s.spread_percent = s.p50 > 0 ? 100 * interquartile_range(call_us) / s.p50 : 0;
  return s;
}

std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    const std::string text = format("%*.*f", width, decimals, value);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return format("%*.1e", width, value);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return text.data();
}

std::string table_header(const Options& options) {
  Header header;
  header.name = format("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  header.unit = format("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  header.group = std::string(header.name.size(), ' ');
  header.group.front() = '#';
  add_side(header, "out-of-place", options);
  add_side(header, "in-place", options);
  if (options.more) {
    header.column(16, "algorithm", "");
    header.column(9, "predicted", "(us)");
  }
  if (options.timestamps) header.column(19, "timestamp", "%Y-%m-%d %H:%M:%S");
  return header.group + "\n" + header.name + "\n" + header.unit + "\n";
}

std::string table_row(const Row& row, const Options& options, double bus_factor) {
  std::string text = format("%12zu  %12zu  %8s  %6s  %6d", row.reported_bytes, row.count,
                            std::string(name_of(row.spec.type)).c_str(), row.redop.c_str(), row.spec.root);
  text += side_columns(row.out_of_place, row.reported_bytes, options, bus_factor);
  text += row.in_place ? side_columns(*row.in_place, row.reported_bytes, options, bus_factor) : no_side(options);
  if (options.more) text += format("  %16s", row.plan.algorithm.c_str()) + "  " + fitted(row.plan.predicted_us, 9);
  if (options.timestamps) text += "  " + now_text();
  return text + "\n";
}

std::string table_footer(const Totals& totals, const std::string& program) {
  return format("# %-20s : %g %s\n", "Out of bounds values", totals.out_of_bounds,
                totals.out_of_bounds > 0 ? "FAILED" : "OK") +
         format("# %-20s : %g\n", "Avg bus bandwidth", totals.average_bus_bandwidth()) +
         "#\n# Collective test concluded: " + program + "\n";
}

}  // namespace tutti::perf

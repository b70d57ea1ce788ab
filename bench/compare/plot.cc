#include "bench/compare/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "bench/perf/format.h"
#include "src/base/env.h"

namespace tutti::compare {
namespace {

// The picture, in its own units; a page scales it.
constexpr double kWidth = 680, kHeight = 430;
constexpr double kLeft = 74, kRight = 18, kTop = 74, kBottom = 50;
constexpr std::size_t kMarkRows = 3;  // lines of labels above the plot

using perf::format;

struct Range {
  double low = HUGE_VAL, high = 0;
  void include(double value) {
    if (value > 0) low = std::min(low, value), high = std::max(high, value);
  }
};

struct Axes {
  double x_low, x_high, y_low, y_high;  // logarithms: base 2 across, base 10 up
  double x(double value) const {
    return kLeft + (std::log2(value) - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (std::log10(value) - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

// Room for all points; up to whole 1, 2 or 5 times a power of ten.
Axes fit_axes(const Plot& plot) {
  Range across, up;
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points) {
      if (point.x <= 0 || point.y <= 0) continue;
      across.include(point.x);
      up.include(point.y), up.include(point.low), up.include(point.high);
    }
  if (across.high == 0) across.low = 1, across.high = 2, up.low = 1, up.high = 10;
  Axes axes{std::log2(across.low), std::log2(across.high), std::log10(up.low), std::log10(up.high)};
  const double margin = std::max(0.5, 0.03 * (axes.x_high - axes.x_low));
  axes.x_low -= margin, axes.x_high += margin;
  const double spare = std::max(0.05, 0.04 * (axes.y_high - axes.y_low));
  axes.y_low -= spare, axes.y_high += spare;
  return axes;
}

void draw_grid(std::string& svg, const Axes& axes) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  // Across: powers of two, as many as have room for a label of some 62 units.
  const double octaves = axes.x_high - axes.x_low;
  int step = 1;
  while (octaves / step * 62 > right - kLeft) ++step;
  for (int power = static_cast<int>(std::ceil(axes.x_low)); power <= axes.x_high; ++power) {
    if (((power % step) + step) % step != 0 || power < 0) continue;
    const double x = axes.x(std::exp2(power));
    svg += format("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, kTop, x, bottom);
    svg += format("<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x, bottom + 17,
                  bytes_text(std::exp2(power)).c_str());
  }
  // Up: decades, and 2 and 5 between them where few decades are shown.
  const double decades = axes.y_high - axes.y_low;
  for (int power = static_cast<int>(std::floor(axes.y_low)); power <= axes.y_high; ++power)
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, power), position = std::log10(value);
      if (position < axes.y_low || position > axes.y_high) continue;
      const double y = axes.y(value);
      svg += format("<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                    digit == 1 ? "grid" : "minor", kLeft, y, right, y);
      if (digit == 1 || decades < 3.5)
        svg += format("<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kLeft - 7, y + 4,
                      number_text(value).c_str());
    }
  svg += format("<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", kLeft, kTop,
                right - kLeft, bottom - kTop);
}

void draw_bands(std::string& svg, const Plot& plot, const Axes& axes) {
  for (const PlotBand& band : plot.bands) {
    const double from = std::max(kLeft, axes.x(band.from)), to = std::min(kWidth - kRight, axes.x(band.to));
    svg += format("<rect class=\"band c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"6\"/>",
                  band.colour % kPlotColours, from, kHeight - kBottom - 6, std::max(0.0, to - from));
  }
}

// A label takes the first line above the plot where it is free of its neighbours; where none is, the size alone is
// tried, and the dashed line's title says the rest.
void draw_marks(std::string& svg, const Plot& plot, const Axes& axes) {
  constexpr double kCharacter = 6.2;  // generous width of one at this size
  std::array<double, kMarkRows> taken{};
  for (const PlotMark& mark : plot.marks) {
    const double x = axes.x(mark.x);
    svg += format("<line class=\"mark\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\">", x, kTop - 4, x,
                  kHeight - kBottom) +
           "<title>" + escape_html(mark.label + " " + bytes_text(mark.x)) + "</title></line>";
    bool placed = false;
    for (const std::string& label : {mark.label + " " + bytes_text(mark.x), bytes_text(mark.x)}) {
      const double width = kCharacter * static_cast<double>(label.size());
      const double left = std::clamp(x - width / 2, kLeft - 40, kWidth - kRight - width);
      for (std::size_t row = 0; row < taken.size() && !placed; ++row) {
        if (left < taken[row]) continue;
        taken[row] = left + width + 4;
        placed = true;
        svg += format("<text class=\"marktext\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", left + width / 2,
                      kTop - 7 - 13 * static_cast<double>(row)) +
               escape_html(label) + "</text>";
      }
      if (placed) break;
    }
  }
}

// Series differ in the shape of their points as well as in colour.
std::string marker(double x, double y, int shape, double size) {
  switch (shape % 4) {
    case 0: return format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", x, y, size);
    case 1:
      return format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x - size * 0.9, y - size * 0.9,
                    size * 1.8, size * 1.8);
    case 2:
      return format("<path d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f Z\"", x, y - size * 1.2, x + size * 1.1, y + size * 0.9,
                    x - size * 1.1, y + size * 0.9);
    default:
      return format("<path d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f L%.1f %.1f Z\"", x, y - size * 1.3, x + size * 1.3, y,
                    x, y + size * 1.3, x - size * 1.3, y);
  }
}

void draw_series(std::string& svg, const PlotSeries& series, const Axes& axes) {
  const std::string colour = format("c%d", series.colour % kPlotColours);
  std::string path;
  for (const PlotPoint& point : series.points)
    if (point.x > 0 && point.y > 0)
      path += format("%s%.1f %.1f", path.empty() ? "M" : " L", axes.x(point.x), axes.y(point.y));
  if (path.empty()) return;
  svg += "<g class=\"series " + colour + "\"><path class=\"line" + (series.dashed ? " dashed" : "") + "\" d=\"" + path +
         "\"/>";
  for (const PlotPoint& point : series.points) {
    if (point.x <= 0 || point.y <= 0) continue;
    const double x = axes.x(point.x);
    if (point.low > 0 && point.high > point.low)
      svg += format("<line class=\"bar\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, axes.y(point.low), x,
                    axes.y(point.high));
    if (series.dashed) {  // an invisible disc takes the pointer
      svg += format("<circle class=\"hit\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\">", x, axes.y(point.y));
      svg += "<title>" + escape_html(point.title) + "</title></circle>";
    } else {
      svg += marker(x, axes.y(point.y), series.colour, 3.4) + " class=\"point\"><title>" + escape_html(point.title) +
             "</title>" +
             (series.colour % 4 == 0   ? "</circle>"
              : series.colour % 4 == 1 ? "</rect>"
                                       : "</path>");
    }
  }
  svg += "</g>\n";
}

}  // namespace

const char* const kPlotStyle = R"css(
:root { --ink: #1b2430; --soft: #5b6776; --faint: #e3e7ec; --fainter: #f1f3f6; --card: #ffffff; --page: #f6f7f9;
  --accent: #0b62c4; --lead: #e3f3e6;
  --c0: #0b62c4; --c1: #c8501b; --c2: #16803c; --c3: #8a3fb5; --c4: #b3861b; --c5: #0f8a94; --c6: #b8336a; --c7: #2b2f36; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --faint: #333c47; --fainter: #262d36;
  --card: #1b2129; --page: #12161c; --accent: #74b3ff; --lead: #1d3a28;
  --c0: #6cb0ff; --c1: #ff9a62; --c2: #5fd08a; --c3: #cf98f2; --c4: #e6c05a; --c5: #55d0da; --c6: #ff86b3; --c7: #f2f4f7; } }
svg.plot { width: 100%; height: auto; display: block; }
svg.plot text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg.plot text.tick, svg.plot text.axis { fill: var(--soft); }
svg.plot text.title { font-weight: 600; font-size: 15px; }
svg.plot text.marktext { fill: var(--soft); font-size: 11px; }
svg.plot .grid { stroke: var(--faint); stroke-width: 1; }
svg.plot .minor { stroke: var(--fainter); stroke-width: 1; }
svg.plot .frame { fill: none; stroke: var(--faint); }
svg.plot .mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 4 4; }
svg .line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
svg .line.dashed { stroke-width: 2.5; stroke-dasharray: 2 5; stroke-linecap: round; }
svg .bar { stroke: currentColor; stroke-width: 5; stroke-linecap: butt; opacity: 0.22; }
svg .point { fill: currentColor; stroke: var(--card); stroke-width: 1; }
svg .point:hover { stroke: var(--ink); stroke-width: 2; }
svg .band { fill: currentColor; opacity: 0.55; }
svg .hit { fill: transparent; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
)css";

std::string to_svg(const Plot& plot) {
  std::string svg =
      format("<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth, kHeight) +
      escape_html(plot.title) + "\">\n";
  const Axes axes = fit_axes(plot);
  svg += format("<text class=\"title\" x=\"%.1f\" y=\"18\">", kLeft) + escape_html(plot.title) + "</text>";
  draw_grid(svg, axes);
  svg += format("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">message size</text>",
                (kLeft + kWidth - kRight) / 2, kHeight - 10);
  svg += format("<text class=\"axis\" transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                (kTop + kHeight - kBottom) / 2) +
         escape_html(plot.y_label) + "</text>\n";
  draw_bands(svg, plot, axes);
  draw_marks(svg, plot, axes);
  bool empty = true;
  for (const PlotSeries& series : plot.series) {
    draw_series(svg, series, axes);
    for (const PlotPoint& point : series.points) empty = empty && (point.x <= 0 || point.y <= 0);
  }
  if (empty)
    svg += format("<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing to show</text>",
                  kWidth / 2, kHeight / 2);
  return svg + "</svg>\n";
}

std::string legend_symbol(int colour, bool dashed) {
  std::string svg =
      format("<svg width=\"34\" height=\"14\" class=\"c%d\" aria-hidden=\"true\">", colour % kPlotColours);
  svg += std::string("<path class=\"line") + (dashed ? " dashed" : "") + "\" d=\"M2 7 L32 7\"/>";
  if (!dashed) svg += marker(17, 7, colour, 4) + " class=\"point\"/>";
  return svg + "</svg>";
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string bytes_text(double bytes) { return base::format_bytes(static_cast<std::size_t>(std::llround(bytes))); }

std::string number_text(double value) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude >= 1e6 || magnitude < 1e-3) return format("%.3g", value);
  const int decimals = std::max(0, 2 - static_cast<int>(std::floor(std::log10(magnitude))));
  std::string text = format("%.*f", decimals, value);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace tutti::compare

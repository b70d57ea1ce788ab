// Line plots on logarithmic axes as SVG text, to be put into a page that defines the colours (see kPlotStyle).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::compare {

struct PlotPoint {
  double x, y;
  double low, high;   // the quartiles, drawn as a bar
  std::string title;  // shown when the pointer rests on the point
};

struct PlotSeries {
  std::string name;
  int colour = 0;  // 0 to kPlotColours - 1
  bool dashed = false;
  std::vector<PlotPoint> points;
};

struct PlotMark {
  double x;
  std::string label;  // the size is added
};

// A strip along the bottom of the plot in a series' colour: here it leads.
struct PlotBand {
  double from, to;
  int colour;
};

struct Plot {
  std::string title;
  std::string y_label;
  std::vector<PlotSeries> series;
  std::vector<PlotMark> marks;  // vertical dashed lines
  std::vector<PlotBand> bands;
};

inline constexpr int kPlotColours = 8;

// The rules of style that plots need, for the page's <style>; light and dark.
extern const char* const kPlotStyle;

// x are bytes. Points with a coordinate of 0 or less are left out; an empty plot says so.
std::string to_svg(const Plot& plot);

// The short line and marker that stand for a series in a legend.
std::string legend_symbol(int colour, bool dashed);

// Text for HTML and SVG, in elements and in quoted attributes.
std::string escape_html(const std::string& text);

// "8 B", "64 KiB"
std::string bytes_text(double bytes);
// At most three significant digits: "0.24", "12.5", "1350"
std::string number_text(double value);

}  // namespace tutti::compare

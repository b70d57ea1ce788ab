#include "src/schedule/svg.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace tutti::schedule {
namespace {

constexpr std::string_view kStyle = R"(
  text { font-family: "Inter", "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; fill: #22272e }
  .title { font-size: 19px; font-weight: 700 }
  .heading { font-size: 13px; font-weight: 700 }
  .body { font-size: 12px }
  .small { font-size: 10.5px; fill: #57606a }
  .rank { font-size: 12px; font-weight: 700 }
  .chip { font-size: 10.5px; font-weight: 700; fill: #16191d }
  .page { fill: #ffffff }
  .cell { fill: #f3f5f8; stroke: #dfe3e8 }
  .node { fill: #ffffff; stroke: #57606a; stroke-width: 1.6 }
  .line { stroke: #c4cbd3; fill: none }
  .arrow { fill: none; stroke-width: 1.7; stroke-linecap: round }
  @media (prefers-color-scheme: dark) {
    text { fill: #e3e8ee }
    .small { fill: #9aa4af }
    .chip { fill: #16191d }
    .page { fill: #14181d }
    .cell { fill: #1d2329; stroke: #323a43 }
    .node { fill: #14181d; stroke: #9aa4af }
    .line { stroke: #48515b }
  }
)";

}  // namespace

std::string svg_number(double value) {
  std::array<char, 64> text{};
  const double rounded = std::round(value * 100) / 100;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), rounded == 0 ? 0.0 : rounded, std::chars_format::fixed).ptr;
  std::string number(text.data(), end);
  if (const auto dot = number.find('.'); dot != std::string::npos && number.size() > dot + 3) number.resize(dot + 3);
  return number;
}

std::string svg_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return escaped;
}

// The OKLab matrices of Bjorn Ottosson: equal lightness looks equally light in every hue.
std::string svg_colour(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const double linear[] = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                           -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                           -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
  std::string colour = "#";
  for (const double value : linear) {
    const double clamped = std::clamp(value, 0.0, 1.0);
    const double encoded = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * std::pow(clamped, 1 / 2.4) - 0.055;
    const int byte = static_cast<int>(std::lround(encoded * 255));
    constexpr std::string_view kDigits = "0123456789abcdef";
    colour += {kDigits[static_cast<std::size_t>(byte) / 16], kDigits[static_cast<std::size_t>(byte) % 16]};
  }
  return colour;
}

std::string Svg::at(Point point) const { return svg_number(origin.x + point.x) + "," + svg_number(origin.y + point.y); }

void Svg::rect(Point corner, Size size, double radius, std::string_view attributes) {
  body_ += "<rect x=\"" + svg_number(origin.x + corner.x) + "\" y=\"" + svg_number(origin.y + corner.y) +
           "\" width=\"" + svg_number(size.width) + "\" height=\"" + svg_number(size.height) + "\" rx=\"" +
           svg_number(radius) + "\" " + std::string(attributes) + "/>\n";
}

void Svg::circle(Point centre, double radius, std::string_view attributes) {
  body_ += "<circle cx=\"" + svg_number(origin.x + centre.x) + "\" cy=\"" + svg_number(origin.y + centre.y) +
           "\" r=\"" + svg_number(radius) + "\" " + std::string(attributes) + "/>\n";
}

void Svg::path(std::string_view d, std::string_view attributes) {
  body_ += "<path d=\"" + std::string(d) + "\" " + std::string(attributes) + "/>\n";
}

void Svg::text(Point where, std::string_view words, std::string_view css_class, std::string_view anchor,
               std::string_view attributes) {
  body_ += "<text x=\"" + svg_number(origin.x + where.x) + "\" y=\"" + svg_number(origin.y + where.y) + "\" class=\"" +
           std::string(css_class) + "\" text-anchor=\"" + std::string(anchor) + "\" " + std::string(attributes) + ">" +
           svg_escape(words) + "</text>\n";
}

// A triangle whose tip points along (dx, dy), a unit vector.
void Svg::head(Point tip, double dx, double dy, std::string_view colour) {
  constexpr double kLength = 7, kHalf = 3.6;
  const Point back{tip.x - kLength * dx, tip.y - kLength * dy};
  path("M" + at(tip) + "L" + at({back.x - kHalf * dy, back.y + kHalf * dx}) + "L" +
           at({back.x + kHalf * dy, back.y - kHalf * dx}) + "Z",
       "fill=\"" + std::string(colour) + "\"");
}

void Svg::drop(Point from, Point to, std::string_view colour) {
  const double bend = (to.y - from.y) * 0.55;
  const Point end{to.x, to.y - 5};
  path("M" + at(from) + "C" + at({from.x, from.y + bend}) + " " + at({to.x, to.y - bend}) + " " + at(end),
       "class=\"arrow\" stroke=\"" + std::string(colour) + "\"");
  head(to, 0, 1, colour);
}

void Svg::arrow(Point from, Point to, double radius, double shift, std::string_view colour, bool dashed) {
  const double length = std::max(1e-9, std::hypot(to.x - from.x, to.y - from.y));
  const double dx = (to.x - from.x) / length, dy = (to.y - from.y) / length;
  const Point begin{from.x + radius * dx - shift * dy, from.y + radius * dy + shift * dx};
  const Point tip{to.x - (radius + 2) * dx - shift * dy, to.y - (radius + 2) * dy + shift * dx};
  path("M" + at(begin) + "L" + at({tip.x - 5 * dx, tip.y - 5 * dy}),
       "class=\"arrow\" stroke=\"" + std::string(colour) + "\"" + (dashed ? " stroke-dasharray=\"4 4\"" : ""));
  head(tip, dx, dy, colour);
}

std::string Svg::document(Size size, std::string_view title) const {
  const std::string width = svg_number(size.width), height = svg_number(size.height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height + "\" viewBox=\"0 0 " +
         width + " " + height + "\" role=\"img\">\n<title>" + svg_escape(title) + "</title>\n<style>" +
         std::string(kStyle) + "</style>\n<rect class=\"page\" width=\"" + width + "\" height=\"" + height +
         "\" rx=\"10\"/>\n" + body_ + "</svg>\n";
}

}  // namespace tutti::schedule

// Just enough SVG: shapes are appended to a text. Coordinates are pixels. Numbers never depend on the locale, text is
// escaped. Colours are classes of one style sheet that follows the reader's light or dark theme.
#pragma once

#include <string>
#include <string_view>

namespace tutti::schedule {

struct Point {
  double x = 0;
  double y = 0;
};

struct Size {
  double width = 0;
  double height = 0;
};

std::string svg_number(double value);           // at most two decimals
std::string svg_escape(std::string_view text);  // &, <, >, quotes; control characters become spaces
std::string svg_colour(double lightness, double chroma, double hue_degrees);  // OKLCH as #rrggbb

// A drawing that grows; positions are relative to `origin`.
class Svg {
 public:
  Point origin;

  void rect(Point corner, Size size, double radius, std::string_view attributes);
  void circle(Point centre, double radius, std::string_view attributes);
  void path(std::string_view d, std::string_view attributes);
  // anchor: "start", "middle" or "end"
  void text(Point at, std::string_view words, std::string_view css_class, std::string_view anchor = "start",
            std::string_view attributes = {});
  // A curve that leaves `from` and enters `to` vertically, with an arrow head.
  void drop(Point from, Point to, std::string_view colour);
  // A straight arrow between the borders of two circles, shifted sideways by `shift`.
  void arrow(Point from, Point to, double radius, double shift, std::string_view colour, bool dashed = false);
  void group(std::string_view attributes) { body_ += "<g " + std::string(attributes) + ">\n"; }
  void end_group() { body_ += "</g>\n"; }

  // "M12,3.5"; with the origin added.
  std::string at(Point point) const;
  std::string document(Size size, std::string_view title) const;

 private:
  void head(Point tip, double dx, double dy, std::string_view colour);
  std::string body_;
};

}  // namespace tutti::schedule

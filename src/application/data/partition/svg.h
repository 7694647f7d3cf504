#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus {

struct SvgText {
  double size = 12;
  const char* anchor = "start";  ///< start, middle, end
  double rotate = 0;             ///< degrees, about its own place
  bool bold = false;
  const char* colour = "#333";
};

/// An SVG picture under construction: shapes are added in order, `finish` wraps them. All text is escaped, coordinates
/// are in pixels, and nothing outside the file is referred to.
///
///     Svg svg;
///     svg.text(10, 20, "clients", {.bold = true});
///     write_file("x.svg", svg.finish(640, 480, "Sizes of clients"));
class Svg {
 public:
  void rect(double x, double y, double width, double height, std::string_view fill, std::string_view stroke = "none");
  void line(double x1, double y1, double x2, double y2, std::string_view colour = "#999", double width = 1);
  void text(double x, double y, std::string_view words, const SvgText& style = {});
  /// Points x, y in turn; with `fill` the area down to `base`.
  void curve(std::span<const double> points, std::string_view colour, double base, bool fill);
  /// rows x columns cells of a value in 0 .. 1 each: one path a colour, so that a 100 x 100 matrix stays small.
  void heat_map(double x, double y, double width, double height, std::size_t columns, std::span<const float> values);
  /// The colours of `heat_map` from 0 (bottom) to 1 (top), with labels at places in 0 .. 1.
  void colour_bar(double x, double y, double height, std::span<const std::pair<double, std::string>> labels);

  /// The whole file; `title` is its heading and its accessible name.
  std::string finish(double width, double height, std::string_view title, std::string_view subtitle = {}) const;

 private:
  std::string body_;
};

/// The colour of a value in 0 .. 1, light to dark (readable in print and for colour-blind eyes).
std::string heat_colour(double value);
/// Colour i of a palette of 20 that neighbours can be told apart by; starts again after those.
std::string_view palette_colour(std::size_t i);
/// About `count` round numbers that span 0 .. top.
std::vector<double> round_ticks(double top, std::size_t count);

}  // namespace chorus

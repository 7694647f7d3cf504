#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline partition {

struct SvgText {
  double size = 12;
  const char* anchor = "start";  ///< start, middle, end
  double rotate = 0;             ///< degrees, about its own position
  bool bold = false;
  const char* colour = "#333";
};

/// Builds an SVG picture: shapes are added in order, `finish` wraps them. Text is escaped, coordinates are pixels, and
/// nothing outside the file is referenced.
///
///     Svg svg;
///     svg.text(10, 20, "clients", {.bold = true});
///     write_file("x.svg", svg.finish(640, 480, "Sizes of clients"));
class Svg {
 public:
  void rect(double x, double y, double width, double height, std::string_view fill, std::string_view stroke = "none");
  void line(double x1, double y1, double x2, double y2, std::string_view colour = "#999", double width = 1);
  void text(double x, double y, std::string_view words, const SvgText& style = {});
  /// Alternating x and y; with `fill` the area down to `base`.
  void curve(std::span<const double> points, std::string_view colour, double base, bool fill);
  /// rows x columns cells with values in 0 .. 1: one path per colour, so that a 100 x 100 matrix stays small.
  void heat_map(double x, double y, double width, double height, std::size_t columns, std::span<const float> values);
  /// The colours of `heat_map` from 0 (bottom) to 1 (top), with labels at positions in 0 .. 1.
  void colour_bar(double x, double y, double height, std::span<const std::pair<double, std::string>> labels);

  /// The whole file; `title` is its heading and its accessible name.
  std::string finish(double width, double height, std::string_view title, std::string_view subtitle = {}) const;

 private:
  std::string body_;
};

/// The colour of a value in 0 .. 1, light to dark (readable in print and by colour-blind readers).
std::string heat_colour(double value);
/// Colour i of a cyclic palette of 20 distinguishable colours.
std::string_view palette_colour(std::size_t i);
/// About `count` round tick values that span 0 .. top.
std::vector<double> round_ticks(double top, std::size_t count);

}  // namespace chorus::inline partition

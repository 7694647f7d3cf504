#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "infrastructure/tracking/compare/axis.h"

namespace chorus::inline compare {

struct PlotOptions {
  std::size_t width = 80;   ///< columns, including labels
  std::size_t height = 20;  ///< lines, excluding the legend
  std::string x_label{}, y_label{};
  bool unicode = true;  ///< braille lines and the markers ● ▲ ■ ◆; else ASCII
  bool colour = false;  ///< ANSI colours, one per curve
};

/// The capabilities of the terminal behind a file descriptor: width, colour, and Unicode when the locale (LC_ALL,
/// LC_CTYPE, LANG) is UTF-8.
PlotOptions plot_options_for(int descriptor);

/// Curves as text, with labelled axes and a legend. Each curve has its own marker, so that curves are distinguishable
/// without colour. Later curves are on top. Every line ends with '\n'.
///
///     fmt::print("{}", terminal_plot(curves, {.x_label = "round", .y_label = "accuracy"}));
std::string terminal_plot(std::span<const Curve> curves, const PlotOptions& options);

}  // namespace chorus::inline compare

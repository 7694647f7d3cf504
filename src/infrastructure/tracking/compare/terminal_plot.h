#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "infrastructure/tracking/compare/axis.h"

namespace chorus {

struct PlotOptions {
  std::size_t width = 80;   ///< columns of the whole picture, labels included
  std::size_t height = 20;  ///< lines of the whole picture but the legend
  std::string x_label{}, y_label{};
  bool unicode = true;  ///< lines of braille dots and ● ▲ ■ ◆ as marks; else ASCII letters
  bool colour = false;  ///< ANSI colours, one a curve
};

/// What the terminal behind a file descriptor can show: its width, colour when it wants it, Unicode when the locale's
/// character set (LC_ALL, LC_CTYPE, LANG) is UTF-8.
PlotOptions plot_options_for(int descriptor);

/// Curves as text: a y axis with labels, an x axis with labels, and a legend. Each curve has its own mark, so that
/// curves can be told apart without colour. Where two cross, the later one is on top. Every line ends with '\n'.
///
///     fmt::print("{}", terminal_plot(curves, {.x_label = "round", .y_label = "accuracy"}));
std::string terminal_plot(std::span<const Curve> curves, const PlotOptions& options);

}  // namespace chorus

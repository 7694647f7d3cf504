#pragma once

#include <span>
#include <string>

#include "infrastructure/tracking/compare/axis.h"

namespace chorus {

struct SvgOptions {
  std::string title{}, x_label{}, y_label{};
};

/// Curves as a picture for a paper or a page: one SVG document of 760 x 440, no scripts, no outside fonts, colours that
/// colour-blind people tell apart (Okabe and Ito), and a mark a curve for print in black and white.
///
///     write_file("curves.svg", svg_plot(curves, {.title = "20news", .x_label = "round", .y_label = "accuracy"}));
std::string svg_plot(std::span<const Curve> curves, const SvgOptions& options);

}  // namespace chorus

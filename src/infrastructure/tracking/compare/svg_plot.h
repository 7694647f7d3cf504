#pragma once

#include <optional>
#include <span>
#include <string>

#include "infrastructure/tracking/compare/axis.h"

namespace chorus::inline compare {

struct SvgOptions {
  std::string title{}, x_label{}, y_label{};
  std::optional<double> target{};  ///< a dashed line at this y
};

/// Curves as one SVG document of 760 x 440, without scripts or external fonts, in colours for colour-blind readers
/// (Okabe and Ito) and with one marker per curve for black-and-white print. After eight curves the colours come again
/// with dashes. A curve with the points of an earlier one has gaps, through which that one is seen.
///
///     write_file("curves.svg", svg_plot(curves, {.title = "20news", .x_label = "round", .y_label = "accuracy"}));
std::string svg_plot(std::span<const Curve> curves, const SvgOptions& options);

}  // namespace chorus::inline compare

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// One line of a picture. Points need not be sorted; those that are not finite are left out.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y
};

/// The range of one axis with round ticks: steps of 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0, high = 1, step = 1;
  std::vector<double> ticks;
  bool logarithmic = false;

  /// Where a value lies between 0 (low) and 1 (high).
  double place(double value) const;
  /// A tick as text: as many digits as the step needs, thousands as k, M, G, T.
  std::string label(double value) const;
};

/// An axis over the values, with about `ticks` ticks. No values, or all the same: a small range around them.
Axis make_axis(std::span<const double> values, std::size_t ticks);
/// The same with a logarithmic scale; the values are positive.
Axis make_log_axis(std::span<const double> values, std::size_t ticks);

/// Finite points only, by rising x.
std::vector<Curve> drawable(std::span<const Curve> curves);
/// The axes that show all the curves, which are drawable. Heights that differ by more than a factor of 30
/// (perplexities) are drawn on a logarithmic scale.
std::pair<Axis, Axis> make_axes(std::span<const Curve> curves, std::size_t x_ticks, std::size_t y_ticks);

}  // namespace chorus

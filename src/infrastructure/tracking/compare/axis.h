#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace chorus::inline compare {

/// One curve of a plot. Points need not be sorted; non-finite ones are ignored.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y
};

/// The range of one axis with round ticks: steps of 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0, high = 1, step = 1;
  std::vector<double> ticks;
  bool logarithmic = false;

  /// The position of a value between 0 (low) and 1 (high).
  double place(double value) const;
  /// A tick as text: as many digits as the step needs, thousands as k, M, G, T.
  std::string label(double value) const;
};

/// An axis over the values, with about `ticks` ticks that are at least `least_step` apart. Without values or with equal
/// ones: a small range around them.
Axis make_axis(std::span<const double> values, std::size_t ticks, double least_step = 0);
/// The same with a logarithmic scale; the values are positive.
Axis make_log_axis(std::span<const double> values, std::size_t ticks);

/// Finite points only, sorted by x.
std::vector<Curve> drawable(std::span<const Curve> curves);
/// Axes that show all the (drawable) curves. Values that differ by more than a factor of 30 (perplexities) get a
/// logarithmic scale. Whole numbers on the x axis (rounds) get whole ticks.
std::pair<Axis, Axis> make_axes(std::span<const Curve> curves, std::size_t x_ticks, std::size_t y_ticks);

}  // namespace chorus::inline compare

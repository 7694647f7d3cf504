#include "infrastructure/tracking/compare/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace chorus::inline compare {
namespace {

double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Axis::place(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

std::string Axis::label(double value) const {
  if (logarithmic) return value >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
  double unit = 1;
  const char* suffix = "";
  const double largest = std::max(std::abs(low), std::abs(high));
  for (const auto& [size, name] : {std::pair{1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}) {
    if (largest >= 10 * size || (size > 1e3 && largest >= size)) {
      unit = size;
      suffix = name;
    }
  }
  const double scaled = std::abs(value) < step * 1e-6 ? 0 : value / unit;
  const double digits = std::ceil(-std::log10(step / unit) - 1e-9);
  if (digits > 6 || largest >= 1e16) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}{}", scaled, static_cast<int>(std::max(digits, 0.0)), scaled == 0 ? "" : suffix);
}

Axis make_axis(std::span<const double> values, std::size_t ticks, double least_step) {
  Axis axis;
  if (!values.empty()) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    axis.low = *low;
    axis.high = *high;
  }
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  if (axis.high - axis.low <= 1e-12 * size || axis.high == axis.low) {
    const double margin = size == 0 ? 1 : 0.1 * size;
    axis.low -= margin;
    axis.high += margin;
  }
  // Halve first: the difference of two large values may overflow.
  axis.step = round_step((axis.high / 2 - axis.low / 2) / static_cast<double>(std::max<std::size_t>(ticks, 2)) * 2);
  axis.step = std::max(axis.step, least_step);
  const double first = std::ceil(axis.low / axis.step - 1e-9), last = std::floor(axis.high / axis.step + 1e-9);
  for (double i = first; i <= last && axis.ticks.size() < 1000; ++i) axis.ticks.push_back(i * axis.step);
  return axis;
}

Axis make_log_axis(std::span<const double> values, std::size_t ticks) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  Axis axis;
  axis.low = *low;
  axis.high = *high;
  axis.logarithmic = true;
  const double decades = std::log10(axis.high / axis.low);
  // 1, 2, 5, 10, ... if there is room, else powers of ten.
  const bool fine = 3 * decades <= static_cast<double>(ticks) + 1;
  for (double power = std::floor(std::log10(axis.low)); power <= std::log10(axis.high); ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if ((factor == 1.0 || fine) && tick >= axis.low * (1 - 1e-9) && tick <= axis.high * (1 + 1e-9)) {
        axis.ticks.push_back(tick);
      }
    }
  }
  return axis;
}

std::vector<Curve> drawable(std::span<const Curve> curves) {
  std::vector<Curve> result;
  for (const Curve& curve : curves) {
    result.push_back({curve.name, {}});
    for (const auto& [x, y] : curve.points) {
      if (std::isfinite(x) && std::isfinite(y) && std::abs(x) < 1e300 && std::abs(y) < 1e300)
        result.back().points.emplace_back(x, y);
    }
    std::stable_sort(result.back().points.begin(), result.back().points.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return result;
}

std::pair<Axis, Axis> make_axes(std::span<const Curve> curves, std::size_t x_ticks, std::size_t y_ticks) {
  std::vector<double> xs, ys;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  constexpr double kWide = 30;
  const bool wide = !ys.empty() && *std::min_element(ys.begin(), ys.end()) > 0 &&
                    *std::max_element(ys.begin(), ys.end()) > kWide * *std::min_element(ys.begin(), ys.end());
  const bool whole = std::all_of(xs.begin(), xs.end(), [](double x) { return x == std::floor(x); });
  return {make_axis(xs, x_ticks, whole ? 1 : 0), wide ? make_log_axis(ys, y_ticks) : make_axis(ys, y_ticks)};
}

}  // namespace chorus::inline compare

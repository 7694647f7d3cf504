#include "infrastructure/tracking/compare/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/console/terminal.h"

namespace chorus::inline compare {
namespace {

constexpr double kWidth = 760, kHeight = 440, kLeft = 70, kRightMargin = 20, kTop = 44, kBottom = 84;
constexpr std::array<const char*, 8> kSvgColours = {"#0072b2", "#e69f00", "#cc79a7", "#009e73",
                                                    "#d55e00", "#56b4e9", "#000000", "#b8a900"};
constexpr std::array<const char*, 4> kDashes = {"", "9 4", "2 4", "12 4 2 4"};
constexpr double kLegendLine = 18;
constexpr double kInside = 8;  // between the frame and the first and last mark

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string mark(double x, double y, std::size_t curve) {
  const char* colour = kSvgColours[curve % kSvgColours.size()];
  switch (curve % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, colour);
    case 1:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4 7h-8z\" fill=\"{}\"/>\n", x, y - 4.5, colour);
    case 2:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\" fill=\"{}\"/>\n", x - 3.2,
                         y - 3.2, colour);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.2 4.4l-4.2 4.4l-4.2 -4.4z\" fill=\"{}\"/>\n", x, y - 4.4, colour);
  }
}

std::string label(double x, double y, std::string_view attributes, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

}  // namespace

std::string svg_plot(std::span<const Curve> all, const SvgOptions& options) {
  const std::vector<Curve> curves = drawable(all);
  std::vector<Curve> shown = curves;
  if (options.target && !curves.empty() && !curves.front().points.empty()) {
    shown.push_back({"target", {{curves.front().points.front().first, *options.target}}});
  }
  const auto [x_axis, y_axis] = make_axes(shown, 8, 6);
  // The legend takes as many lines as it needs, below everything.
  std::vector<std::pair<double, std::size_t>> legend;  // x, line
  double at = kLeft;
  std::size_t line = 0;
  for (const Curve& curve : curves) {
    const double width = 28 + 7.2 * static_cast<double>(display_width(shortened(curve.name, 90)));
    if (at > kLeft && at + width > kWidth - kRightMargin) {
      at = kLeft;
      ++line;
    }
    legend.emplace_back(at, line);
    at += width;
  }
  const double height = kHeight + kLegendLine * static_cast<double>(line);
  const double floor = kHeight - kBottom;
  const auto x_of = [&x = x_axis](double value) {
    return kLeft + kInside + x.place(value) * (kWidth - kLeft - kRightMargin - 2 * kInside);
  };
  const auto y_of = [&y = y_axis, floor](double value) {
    return kTop + kInside + (1 - y.place(value)) * (floor - kTop - 2 * kInside);
  };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#333\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, height);
  if (!options.title.empty()) {
    svg += label(kLeft, 26, "font-size=\"16\" font-weight=\"600\"", shortened(options.title, 80));
  }
  for (const double tick : y_axis.ticks) {
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#e4e4e4\"/>\n", kLeft, y_of(tick), kWidth - kRightMargin);
    svg += label(kLeft - 8, y_of(tick) + 4, "text-anchor=\"end\"", y_axis.label(tick));
  }
  for (const double tick : x_axis.ticks) {
    svg += fmt::format("<path d=\"M{:.1f} {}v5\" stroke=\"#888\"/>\n", x_of(tick), floor);
    svg += label(x_of(tick), floor + 20, "text-anchor=\"middle\"", x_axis.label(tick));
  }
  svg += fmt::format("<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"#888\"/>\n", kLeft, kTop, floor,
                     kWidth - kRightMargin);
  svg += label((kLeft + kWidth - kRightMargin) / 2, floor + 40, "text-anchor=\"middle\"", options.x_label);
  const double middle = (kTop + floor) / 2;
  svg += label(16, middle, fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1f})\"", middle),
               options.y_label);
  if (shown.size() > curves.size()) {
    const double y = y_of(*options.target);
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\" stroke=\"#555\" stroke-dasharray=\"5 4\"/>\n", kLeft, y,
                       kWidth - kRightMargin);
    svg += label(kWidth - kRightMargin - 4, y - 5, "text-anchor=\"end\"", fmt::format("target {:g}", *options.target));
  }
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::string path;
    const bool again = std::any_of(curves.begin(), curves.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Curve& before) { return before.points == curves[i].points; });
    const std::string dash = again ? "14 14" : kDashes[i / kSvgColours.size() % kDashes.size()];
    for (const auto& [x, y] : curves[i].points) path += fmt::format("{:.1f},{:.1f} ", x_of(x), y_of(y));
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"{}/>\n", path,
        kSvgColours[i % kSvgColours.size()], dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
    const std::size_t every = std::max<std::size_t>(1, curves[i].points.size() / 20);
    for (std::size_t p = again ? every / 2 : 0; p < curves[i].points.size(); p += every)
      svg += mark(x_of(curves[i].points[p].first), y_of(curves[i].points[p].second), i);
    const double y = kHeight - 20 + kLegendLine * static_cast<double>(legend[i].second);
    svg += mark(legend[i].first + 6, y - 4, i);
    svg += label(legend[i].first + 16, y, "", shortened(curves[i].name, 90));
  }
  return svg + "</svg>\n";
}

}  // namespace chorus::inline compare

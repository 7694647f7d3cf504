#include "application/data/partition/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace chorus::inline partition {
namespace {

constexpr std::size_t kLevels = 64;

constexpr std::array<std::array<int, 3>, 6> kStops{
    {{255, 255, 245}, {199, 233, 180}, {90, 190, 193}, {34, 125, 184}, {36, 65, 148}, {10, 24, 72}}};

constexpr std::array<std::string_view, 20> kPalette{
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac",
    "#1b4f72", "#a04000", "#196f3d", "#922b21", "#148f77", "#b7950b", "#6c3483", "#d98880", "#784212", "#616a6b"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

}  // namespace

std::string heat_colour(double value) {
  const double at = std::clamp(value, 0.0, 1.0) * static_cast<double>(kStops.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
  const double part = at - static_cast<double>(low);
  std::array<int, 3> mixed{};
  for (std::size_t i = 0; i < 3; ++i) {
    mixed[i] = static_cast<int>(std::lround(kStops[low][i] + part * (kStops[low + 1][i] - kStops[low][i])));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

std::string_view palette_colour(std::size_t i) { return kPalette[i % kPalette.size()]; }

std::vector<double> round_ticks(double top, std::size_t count) {
  if (!(top > 0)) return {0};
  const double raw = top / static_cast<double>(std::max<std::size_t>(1, count));
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= raw) {
      step = nice * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double tick = 0; tick <= top * 1.0001; tick += step) ticks.push_back(tick);
  return ticks;
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill, std::string_view stroke) {
  body_ +=
      fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" stroke=\"{}\"/>\n", x,
                  y, width, height, fill, stroke);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour, double width) {
  body_ += fmt::format(
      "<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\" stroke-width=\"{:g}\"/>\n", x1, y1,
      x2, y2, colour, width);
}

void Svg::text(double x, double y, std::string_view words, const SvgText& style) {
  const std::string turn =
      style.rotate == 0 ? "" : fmt::format(" transform=\"rotate({:g} {:.2f} {:.2f})\"", style.rotate, x, y);
  body_ += fmt::format(
      "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:g}\" text-anchor=\"{}\" fill=\"{}\"{}{}>{}</text>\n", x, y,
      style.size, style.anchor, style.colour, style.bold ? " font-weight=\"600\"" : "", turn, escaped(words));
}

void Svg::curve(std::span<const double> points, std::string_view colour, double base, bool fill) {
  if (points.size() < 4) return;
  std::string path;
  for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
    path += fmt::format("{}{:.2f} {:.2f}", i == 0 ? "M" : "L", points[i], points[i + 1]);
  }
  if (fill) {
    body_ += fmt::format("<path d=\"{}L{:.2f} {:.2f}L{:.2f} {:.2f}Z\" fill=\"{}\" fill-opacity=\"0.15\"/>\n", path,
                         points[points.size() - 2], base, points[0], base, colour);
  }
  body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n",
                       path, colour);
}

void Svg::heat_map(double x, double y, double width, double height, std::size_t columns,
                   std::span<const float> values) {
  if (columns == 0 || values.empty()) return;
  const std::size_t rows = values.size() / columns;
  std::vector<std::string> paths(kLevels);
  const auto level_of = [&](std::size_t i) {
    return static_cast<std::size_t>(std::lround(std::clamp(values[i], 0.0F, 1.0F) * (kLevels - 1)));
  };
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns;) {
      const std::size_t level = level_of(r * columns + c);
      std::size_t end = c + 1;
      while (end < columns && level_of(r * columns + end) == level) ++end;
      if (level > 0) paths[level] += fmt::format("M{} {}h{}v1h-{}z", c, r, end - c, end - c);
      c = end;
    }
  }
  rect(x, y, width, height, heat_colour(0));
  body_ +=
      fmt::format("<g transform=\"translate({:.2f} {:.2f}) scale({:.5f} {:.5f})\" shape-rendering=\"crispEdges\">\n", x,
                  y, width / static_cast<double>(columns), height / static_cast<double>(rows));
  for (std::size_t level = 0; level < kLevels; ++level) {
    if (paths[level].empty()) continue;
    body_ += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n",
                         heat_colour(static_cast<double>(level) / static_cast<double>(kLevels - 1)), paths[level]);
  }
  body_ += "</g>\n";
  rect(x, y, width, height, "none", "#888");
}

void Svg::colour_bar(double x, double y, double height, std::span<const std::pair<double, std::string>> labels) {
  constexpr int kSteps = 64;
  const double step = height / kSteps;
  for (int i = 0; i < kSteps; ++i) {
    rect(x, y + height - (i + 1) * step, 14, step + 0.5, heat_colour((i + 0.5) / kSteps));
  }
  rect(x, y, 14, height, "none", "#888");
  for (const auto& [place, label] : labels) {
    const double at = y + height * (1 - place);
    line(x + 14, at, x + 18, at);
    text(x + 22, at + 4, label, {.size = 11});
  }
}

std::string Svg::finish(double width, double height, std::string_view title, std::string_view subtitle) const {
  // A heading that is wider than the picture makes it wider: about 0.58 and 0.54 of the size per character.
  width =
      std::max({width, 48 + 9.9 * static_cast<double>(title.size()), 48 + 6.5 * static_cast<double>(subtitle.size())});
  std::string file = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height, escaped(title));
  Svg heading;
  heading.text(24, 30, title, {.size = 17, .bold = true, .colour = "#111"});
  if (!subtitle.empty()) heading.text(24, 50, subtitle, {.size = 12, .colour = "#555"});
  return file + heading.body_ + body_ + "</svg>\n";
}

}  // namespace chorus::inline partition

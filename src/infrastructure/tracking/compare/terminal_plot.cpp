#include "infrastructure/tracking/compare/terminal_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/base/utf8.h"
#include "core/console/terminal.h"

namespace chorus::inline compare {
namespace {

constexpr std::array<const char*, 8> kMarks = {"●", "▲", "■", "◆", "○", "△", "□", "◇"};
constexpr std::array<const char*, 8> kLetters = {"*", "o", "+", "x", "#", "@", "%", "&"};
constexpr std::array<int, 8> kColours = {36, 33, 35, 32, 31, 34, 96, 93};
constexpr std::size_t kMarksPerCurve = 8;

const char* mark_of(std::size_t curve, bool unicode) {
  return unicode ? kMarks[curve % kMarks.size()] : kLetters[curve % kLetters.size()];
}

/// Bits of a braille pattern, by row and column of its dots.
constexpr std::array<std::array<std::uint8_t, 2>, 4> kDots = {{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

struct Cell {
  std::uint8_t dots = 0;
  std::string_view mark{};
  std::size_t curve = 0;
};

/// The drawing area: `columns` by `rows` cells; positions are fractions of it, y upwards.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows, bool unicode)
      : columns_(columns), rows_(rows), unicode_(unicode), cells_(columns * rows) {}

  void line(double x0, double y0, double x1, double y1, std::size_t curve) {
    const double wide = static_cast<double>(columns_ * 2), high = static_cast<double>(rows_ * 4);
    const double steps = std::ceil(std::max({std::abs(x1 - x0) * wide, std::abs(y1 - y0) * high, 1.0}));
    for (double i = 0; i <= steps; ++i) dot(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, curve);
  }
  void mark(double x, double y, std::size_t curve) {
    Cell& cell = cells_[row(y, rows_) * columns_ + column(x, columns_)];
    cell.mark = mark_of(curve, unicode_);
    cell.curve = curve;
  }
  const Cell& at(std::size_t row, std::size_t column) const { return cells_[row * columns_ + column]; }

 private:
  static std::size_t column(double x, std::size_t of) {
    return static_cast<std::size_t>(std::lround(std::clamp(x, 0.0, 1.0) * static_cast<double>(of - 1)));
  }
  static std::size_t row(double y, std::size_t of) { return column(1 - y, of); }

  void dot(double x, double y, std::size_t curve) {
    if (!unicode_) return mark(x, y, curve);
    const std::size_t dot_row = row(y, rows_ * 4), dot_column = column(x, columns_ * 2);
    Cell& cell = cells_[dot_row / 4 * columns_ + dot_column / 2];
    cell.dots = static_cast<std::uint8_t>(cell.dots | kDots[dot_row % 4][dot_column % 2]);
    cell.curve = curve;
  }

  std::size_t columns_, rows_;
  bool unicode_;
  std::vector<Cell> cells_;
};

std::string painted(std::string_view text, std::size_t curve, const PlotOptions& options) {
  if (!options.colour) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[curve % kColours.size()], text);
}

std::string without_end_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string cells_text(const Canvas& canvas, std::size_t row, std::size_t columns, const PlotOptions& options) {
  std::string line, piece;
  std::size_t curve = 0;
  const auto end_piece = [&] {
    if (!piece.empty()) line += painted(piece, curve, options);
    piece.clear();
  };
  for (std::size_t column = 0; column < columns; ++column) {
    const Cell& cell = canvas.at(row, column);
    const bool blank = cell.mark.empty() && cell.dots == 0;
    if (blank || cell.curve != curve) end_piece();
    curve = cell.curve;
    if (blank) {
      line += ' ';
    } else if (!cell.mark.empty()) {
      piece += cell.mark;
    } else {
      utf8::append(piece, char32_t{0x2800} + cell.dots);
    }
  }
  end_piece();
  return line;
}

void draw(Canvas& canvas, const std::vector<Curve>& curves, const Axis& x_axis, const Axis& y_axis) {
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const auto& points = curves[i].points;
    for (std::size_t p = 1; p < points.size(); ++p) {
      canvas.line(x_axis.place(points[p - 1].first), y_axis.place(points[p - 1].second), x_axis.place(points[p].first),
                  y_axis.place(points[p].second), i);
    }
  }
  // Markers on top of all lines, a few per curve, staggered so that they rarely hide each other.
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const auto& points = curves[i].points;
    const std::size_t every = std::max<std::size_t>(1, points.size() / kMarksPerCurve);
    for (std::size_t p = 0; p < points.size(); ++p) {
      if (p % every == i % every || p + 1 == points.size())
        canvas.mark(x_axis.place(points[p].first), y_axis.place(points[p].second), i);
    }
  }
}

/// The tick labels under the x axis, without those that would touch the previous one.
std::string x_labels(const Axis& axis, std::size_t columns, std::size_t margin, std::string& ticks, bool unicode) {
  std::string line(margin + columns + 12, ' ');
  std::size_t free_from = 0;
  std::vector<bool> has_tick(columns, false);
  for (const double tick : axis.ticks) {
    const auto column = static_cast<std::size_t>(std::lround(axis.place(tick) * static_cast<double>(columns - 1)));
    const std::string label = axis.label(tick);
    const std::size_t middle = margin + column, half = label.size() / 2;
    const std::size_t begin = middle >= half ? middle - half : 0;
    if (begin < free_from || begin + label.size() > line.size()) continue;
    line.replace(begin, label.size(), label);
    free_from = begin + label.size() + 2;
    has_tick[std::min(column, columns - 1)] = true;
  }
  for (std::size_t column = 0; column < columns; ++column) {
    if (unicode) ticks += has_tick[column] ? "┬" : "─";
    if (!unicode) ticks += has_tick[column] ? '+' : '-';
  }
  return without_end_blanks(line);
}

/// Its name, and which curve hides it: of equal ones only the last is seen.
std::string legend_name(const std::vector<Curve>& curves, std::size_t i, const PlotOptions& options) {
  std::string name = shortened(curves[i].name, std::max<std::size_t>(options.width, 32) - 18);
  for (std::size_t k = curves.size() - 1; k > i; --k) {
    if (curves[k].points != curves[i].points || curves[i].points.empty()) continue;
    return fmt::format("{} (equal to {})", name, mark_of(k, options.unicode));
  }
  return name;
}

std::string legend(const std::vector<Curve>& curves, const PlotOptions& options) {
  std::string text = "  ";
  std::size_t used = 2;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string name = legend_name(curves, i, options);
    const std::size_t width = display_width(name) + 5;
    if (used > 2 && used + width > options.width) {
      text = without_end_blanks(text) + "\n  ";
      used = 2;
    }
    text += painted(mark_of(i, options.unicode), i, options) + " " + name + "   ";
    used += width;
  }
  return without_end_blanks(text) + "\n";
}

}  // namespace

PlotOptions plot_options_for(int descriptor) {
  PlotOptions options;
  options.width = std::clamp<std::size_t>(terminal_columns(descriptor), 40, 120);
  options.colour = wants_colour(descriptor);
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    locale = value;
    break;
  }
  for (char& c : locale) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  options.unicode = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return options;
}

std::string terminal_plot(std::span<const Curve> all, const PlotOptions& options) {
  const std::vector<Curve> curves = drawable(all);
  if (std::all_of(curves.begin(), curves.end(), [](const Curve& curve) { return curve.points.empty(); }))
    return "  (no points to draw yet)\n";
  const std::size_t rows = std::max<std::size_t>(options.height, 8) - 4;
  const auto [x_axis, y_axis] =
      make_axes(curves, std::max<std::size_t>(options.width / 10, 2), std::max<std::size_t>(rows / 2, 2));
  std::size_t margin = 0;
  for (const double tick : y_axis.ticks) margin = std::max(margin, y_axis.label(tick).size());
  const std::size_t columns = std::max<std::size_t>(options.width, margin + 24) - margin - 4;
  Canvas canvas(columns, rows, options.unicode);
  draw(canvas, curves, x_axis, y_axis);

  std::vector<std::string> labels(rows);
  for (const double tick : y_axis.ticks) {
    const double row = std::round((1 - y_axis.place(tick)) * static_cast<double>(rows - 1));
    labels[static_cast<std::size_t>(std::clamp(row, 0.0, static_cast<double>(rows - 1)))] = y_axis.label(tick);
  }
  std::string picture = options.y_label.empty() ? "" : fmt::format("  {}\n", shortened(options.y_label, options.width));
  for (std::size_t row = 0; row < rows; ++row) {
    const char* rule = options.unicode ? (labels[row].empty() ? "│" : "┤") : (labels[row].empty() ? "|" : "+");
    picture += without_end_blanks(
                   fmt::format(" {:>{}} {}{}", labels[row], margin, rule, cells_text(canvas, row, columns, options))) +
               "\n";
  }
  std::string ticks;
  const std::string under = x_labels(x_axis, columns, margin + 3, ticks, options.unicode);
  picture += fmt::format(" {:{}} {}{}\n{}\n", "", margin, options.unicode ? "└" : "+", ticks, under);
  if (!options.x_label.empty()) {
    const std::size_t width = display_width(options.x_label);
    const std::size_t middle = margin + 3 + (columns > width ? (columns - width) / 2 : 0);
    picture += std::string(middle, ' ') + options.x_label + "\n";
  }
  return picture + legend(curves, options);
}

}  // namespace chorus::inline compare

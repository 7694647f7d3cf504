#include "application/data/partition/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "application/data/partition/svg.h"
#include "core/console/terminal.h"

namespace chorus::inline partition {
namespace {

constexpr double kTop = 96;  // below heading and panel titles
constexpr double kLeft = 64;
constexpr std::size_t kPerRow = 4;

double count(std::size_t n) { return static_cast<double>(n); }

/// A grid of equal panels: the origin of panel p and the total size.
struct Grid {
  std::size_t panels;
  double width, height, gap_x, gap_y;

  double x(std::size_t p) const { return kLeft + count(p % kPerRow) * (width + gap_x); }
  double y(std::size_t p) const { return kTop + count(p / kPerRow) * (height + gap_y); }
  double right() const { return kLeft + count(std::min(panels, kPerRow)) * (width + gap_x) - gap_x; }
  double bottom() const { return kTop + count((panels + kPerRow - 1) / kPerRow) * (height + gap_y) - gap_y; }
};

/// Ticks for clients 0, 20, 40, ... along an axis with one cell per client; of a sample, at the first one after it.
void client_ticks(Svg& svg, std::span<const std::size_t> clients, double from, double length, double across,
                  bool vertical) {
  if (clients.empty()) return;
  const double cell = length / count(clients.size());
  for (const double tick : round_ticks(count(clients.back()), 5)) {
    const auto found = std::lower_bound(clients.begin(), clients.end(), static_cast<std::size_t>(tick));
    if (tick != std::floor(tick) || found == clients.end()) continue;
    const double at = from + (static_cast<double>(found - clients.begin()) + 0.5) * cell;
    const std::string label = fmt::format("{:.0f}", tick);
    if (vertical) {
      svg.line(across - 4, at, across, at);
      svg.text(across - 7, at + 4, label, {.size = 10, .anchor = "end"});
    } else {
      svg.line(at, across, at, across + 4);
      svg.text(at, across + 15, label, {.size = 10, .anchor = "middle"});
    }
  }
}

std::string number(double value) { return value >= 10 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value); }

}  // namespace

std::string panel_title(const Partition& partition) {
  std::string title;
  for (const auto& [name, symbol] : {std::pair{"alpha", "α"}, {"beta", "β"}, {"shards", "shards"}}) {
    const auto found = partition.info.numbers.find(name);
    if (found == partition.info.numbers.end()) continue;
    title += fmt::format("{}{} = {:g}", title.empty() ? "" : ", ", symbol, found->second);
  }
  return title.empty() ? shortened(partition.info.group, 40) : title;
}

std::string js_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most) {
  Svg svg;
  const Grid grid{panels.size(), 250, 250, 46, 84};
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const JsMatrix js = js_matrix(panels[p].partition->train, labels, most);
    const double x = grid.x(p), y = grid.y(p);
    svg.text(x + grid.width / 2, y - 12, fmt::format("{}  (mean {:.3f})", panels[p].title, js.mean_divergence),
             {.size = 13, .anchor = "middle", .bold = true});
    svg.heat_map(x, y, grid.width, grid.height, js.clients.size(), js.divergence);
    client_ticks(svg, js.clients, x, grid.width, y + grid.height, false);
    client_ticks(svg, js.clients, y, grid.height, x, true);
    svg.text(x + grid.width / 2, y + grid.height + 32, "client", {.size = 11, .anchor = "middle"});
    if (p % kPerRow == 0) {
      svg.text(x - 38, y + grid.height / 2, "client", {.size = 11, .anchor = "middle", .rotate = -90});
    }
  }
  const std::vector<std::pair<double, std::string>> ticks{
      {0, "0"}, {0.25, "0.25"}, {0.5, "0.5"}, {0.75, "0.75"}, {1, "1"}};
  svg.colour_bar(grid.right() + 28, kTop, grid.height, ticks);
  return svg.finish(
      grid.right() + 108, grid.bottom() + 52,
      fmt::format("Jensen-Shannon divergence between clients' {} distributions", labels.what),
      fmt::format("base 2: 0 means the same {0}s in the same shares, 1 means no {0} in common", labels.what));
}

std::string label_mix_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most) {
  Svg svg;
  const std::size_t columns = labels.names.size();
  const bool named = columns <= 40;
  std::size_t longest = 0;
  for (const std::string& name : labels.names) longest = std::max(longest, std::min<std::size_t>(24, name.size()));
  const double below = named ? 6.0 * count(longest) + 16 : 40;
  const Grid grid{panels.size(), std::clamp(count(columns) * 12, 160.0, 300.0), 420, 46, below + 56};
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const ClientLists& train = panels[p].partition->train;
    const std::vector<std::size_t> clients = sample_clients(train, most);
    std::vector<float> values;
    for (const std::size_t c : clients) {
      for (const std::size_t held : label_histogram(train, c, labels)) {
        // Square root: shares around 1 / labels would be indistinguishable on a linear scale.
        values.push_back(static_cast<float>(std::sqrt(count(held) / count(train.size_of(c)))));
      }
    }
    const double x = grid.x(p), y = grid.y(p);
    svg.text(x + grid.width / 2, y - 12, panels[p].title, {.size = 13, .anchor = "middle", .bold = true});
    svg.heat_map(x, y, grid.width, grid.height, columns, values);
    client_ticks(svg, clients, y, grid.height, x, true);
    const double cell = grid.width / count(std::max<std::size_t>(1, columns));
    for (std::size_t l = 0; named && l < columns; ++l) {
      svg.text(x + (count(l) + 0.5) * cell + 3, y + grid.height + 8, shortened(labels.names[l], 24),
               {.size = std::min(10.0, cell), .anchor = "end", .rotate = -90});
    }
    if (!named) {
      svg.text(x + grid.width / 2, y + grid.height + 20, fmt::format("{} {}s", columns, labels.what),
               {.size = 11, .anchor = "middle"});
    }
    if (p % kPerRow == 0) {
      svg.text(x - 38, y + grid.height / 2, "client", {.size = 11, .anchor = "middle", .rotate = -90});
    }
  }
  std::vector<std::pair<double, std::string>> ticks;
  for (const double share : {0.0, 0.05, 0.2, 0.5, 1.0})
    ticks.emplace_back(std::sqrt(share), fmt::format("{:.0f} %", share * 100));
  svg.colour_bar(grid.right() + 28, kTop, grid.height, ticks);
  return svg.finish(
      grid.right() + 108, grid.bottom() + below + 20, fmt::format("Mix of {}s of every client", labels.what),
      fmt::format("colour: a {}'s share of the client's training examples (square-root scale)", labels.what));
}

std::string label_count_figure(std::span<const FigurePanel> panels, const Factor& labels, std::size_t most) {
  Svg svg;
  const std::size_t label_count = labels.names.size();
  std::vector<std::size_t> totals(label_count);
  for (const std::int32_t id : labels.ids) {
    if (id != Factor::kNoValue) ++totals[static_cast<std::size_t>(id)];
  }
  std::vector<std::size_t> order(label_count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return totals[a] > totals[b]; });
  const std::size_t shown = std::min<std::size_t>(label_count, label_count > 20 ? 19 : 20);

  const double width = 720, height = 190, gap = 70;
  double y = kTop;
  for (const FigurePanel& panel : panels) {
    const ClientLists& train = panel.partition->train;
    const std::vector<std::size_t> clients = sample_clients(train, most);
    double top = 1;
    for (const std::size_t c : clients) top = std::max(top, count(train.size_of(c)));
    svg.text(kLeft, y - 12, panel.title, {.size = 13, .bold = true});
    for (const double tick : round_ticks(top, 4)) {
      const double at = y + height * (1 - tick / top);
      svg.line(kLeft, at, kLeft + width, at, "#e4e4e4");
      svg.text(kLeft - 7, at + 4, number(tick), {.size = 10, .anchor = "end"});
    }
    const double cell = width / count(std::max<std::size_t>(1, clients.size()));
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const std::vector<std::size_t> held = label_histogram(train, clients[i], labels);
      double base = y + height;
      const auto stack = [&](double part, std::string_view colour) {
        const double tall = part / top * height;
        if (tall > 0) svg.rect(kLeft + (count(i) + 0.08) * cell, base - tall, 0.84 * cell, tall, colour);
        base -= tall;
      };
      double other = 0;
      for (std::size_t rank = 0; rank < label_count; ++rank) {
        if (rank < shown)
          stack(count(held[order[rank]]), palette_colour(rank));
        else
          other += count(held[order[rank]]);
      }
      stack(other, "#d0d0d0");
    }
    svg.line(kLeft, y + height, kLeft + width, y + height, "#666");
    client_ticks(svg, clients, kLeft, width, y + height, false);
    svg.text(kLeft + width / 2, y + height + 32, "client", {.size = 11, .anchor = "middle"});
    svg.text(kLeft - 46, y + height / 2, "training examples", {.size = 11, .anchor = "middle", .rotate = -90});
    y += height + gap;
  }
  const double legend = kLeft + width + 24;
  for (std::size_t rank = 0; rank < shown + (shown < label_count ? 1 : 0); ++rank) {
    const double at = kTop + 17 * count(rank);
    svg.rect(legend, at, 12, 12, rank < shown ? palette_colour(rank) : "#d0d0d0");
    svg.text(legend + 18, at + 10,
             rank < shown ? shortened(labels.names[order[rank]], 26)
                          : fmt::format("{} other {}s", label_count - shown, labels.what),
             {.size = 11});
  }
  return svg.finish(legend + 210, std::max(y - gap + 52, kTop + 17 * count(shown + 1) + 20),
                    fmt::format("Training examples of every client by {}", labels.what));
}

std::string size_figure(std::span<const FigurePanel> panels) {
  Svg svg;
  const double width = 640, height = 320;
  double largest = 1;
  for (const FigurePanel& panel : panels) largest = std::max(largest, summarise_sizes(panel.partition->train).maximum);
  const double right = largest * 1.1;

  constexpr std::size_t kPoints = 400;
  std::vector<std::vector<double>> densities;
  double tallest = 0;
  for (const FigurePanel& panel : panels) {
    const ClientLists& train = panel.partition->train;
    const SizeSummary sizes = summarise_sizes(train);
    const double n = count(std::max<std::size_t>(1, train.clients()));
    const double spread = sizes.quantiles.empty() ? 0 : (sizes.quantiles[3] - sizes.quantiles[1]) / 1.34;
    const double sigma = spread > 0 ? std::min(sizes.deviation, spread) : sizes.deviation;
    // Equal sizes have no spread: draw a narrow bump.
    const double h = std::max(0.9 * sigma * std::pow(n, -0.2), right / 250);
    // Clients of equal size are grouped: a hundred thousand clients have few distinct sizes.
    std::vector<std::pair<double, double>> weights;
    std::vector<std::size_t> all;
    for (std::size_t c = 0; c < train.clients(); ++c) all.push_back(train.size_of(c));
    std::sort(all.begin(), all.end());
    for (const std::size_t size : all) {
      if (weights.empty() || weights.back().first != count(size)) weights.emplace_back(count(size), 0);
      weights.back().second += 1;
    }
    std::vector<double> density(kPoints);
    for (std::size_t i = 0; i < kPoints; ++i) {
      const double at = right * count(i) / (kPoints - 1);
      for (const auto& [size, weight] : weights) {
        const double u = (at - size) / h;
        const double mirrored = (at + size) / h;  // reflect at 0: sizes are not negative
        density[i] += weight * (std::exp(-u * u / 2) + std::exp(-mirrored * mirrored / 2));
      }
      density[i] /= n * h * std::sqrt(2 * std::numbers::pi);
      tallest = std::max(tallest, density[i]);
    }
    densities.push_back(std::move(density));
  }
  if (tallest <= 0) tallest = 1;

  const double base = kTop + height;
  for (const double tick : round_ticks(right, 8)) {
    const double x = kLeft + width * tick / right;
    svg.line(x, kTop, x, base, "#eee");
    svg.line(x, base, x, base + 4);
    svg.text(x, base + 16, number(tick), {.size = 10, .anchor = "middle"});
  }
  for (const double tick : round_ticks(tallest, 5)) {
    const double y = base - height * tick / (tallest * 1.05);
    svg.line(kLeft, y, kLeft + width, y, "#eee");
    svg.text(kLeft - 7, y + 4, fmt::format("{:g}", tick), {.size = 10, .anchor = "end"});
  }
  const double rug = base + 52;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    std::vector<double> points;
    for (std::size_t i = 0; i < kPoints; ++i) {
      points.push_back(kLeft + width * count(i) / (kPoints - 1));
      points.push_back(base - height * densities[p][i] / (tallest * 1.05));
    }
    svg.curve(points, palette_colour(p), base, true);
    const ClientLists& train = panels[p].partition->train;
    for (const std::size_t c : sample_clients(train, 500)) {
      const double x = kLeft + width * count(train.size_of(c)) / right;
      svg.line(x, rug + 12 * count(p), x, rug + 12 * count(p) + 9, palette_colour(p), 0.8);
    }
    const double at = kTop + 18 + 18 * count(p);
    svg.line(kLeft + width - 170, at - 4, kLeft + width - 146, at - 4, palette_colour(p), 3);
    svg.text(kLeft + width - 138, at, panels[p].title, {.size = 12});
  }
  svg.line(kLeft, base, kLeft + width, base, "#666");
  svg.text(kLeft + width / 2, base + 36, "training examples per client (one tick per client below)",
           {.size = 12, .anchor = "middle"});
  svg.text(kLeft - 48, kTop + height / 2, "density", {.size = 12, .anchor = "middle", .rotate = -90});
  return svg.finish(kLeft + width + 32, rug + 12 * count(panels.size()) + 20, "Training examples per client",
                    "density over clients, Gaussian kernel");
}

}  // namespace chorus::inline partition

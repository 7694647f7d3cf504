#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "application/data/partition/report.h"
#include "core/console/terminal.h"

namespace chorus::inline partition {
namespace {

/// A bar of `value` out of `top` in at most `cells` characters, in eighths.
std::string bar(double value, double top, std::size_t cells) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      top > 0 ? static_cast<std::size_t>(std::lround(value / top * 8 * static_cast<double>(cells))) : 0;
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  const std::size_t used = eighths / 8 + (eighths % 8 > 0 ? 1 : 0);
  // A client with examples never shows an empty bar.
  if (used == 0 && value > 0) return "▏" + std::string(cells - 1, ' ');
  return text + std::string(cells - used, ' ');
}

/// A shade for a value between 0 and 1, `wide` characters; with colour also from grey to red.
std::string shade(double value, std::size_t wide, bool colour) {
  static const char* const kShades[] = {" ", "·", "░", "▒", "▓", "█"};
  const auto level = value <= 0 ? std::size_t{0} : std::min<std::size_t>(5, 1 + static_cast<std::size_t>(value * 5));
  std::string text;
  for (std::size_t i = 0; i < wide; ++i) text += kShades[level];
  static constexpr int kColours[] = {0, 244, 110, 74, 214, 202};
  return colour && level > 0 ? fmt::format("\x1b[38;5;{}m{}\x1b[0m", kColours[level], text) : text;
}

std::string summary_line(const char* split, const SizeSummary& sizes, const ClientLists& lists) {
  if (lists.total() == 0) return fmt::format("  {:<6} no examples\n", split);
  return fmt::format(
      "  {:<6} {} examples; {:.1f} ± {:.1f} per client, from {:.0f} to {:.0f} (5 %: {:.0f}, median {:.0f}, 95 %: "
      "{:.0f}){}\n",
      split, lists.total(), sizes.mean, sizes.deviation, sizes.minimum, sizes.maximum, sizes.quantiles[0],
      sizes.quantiles[2], sizes.quantiles[4],
      sizes.empty > 0 ? fmt::format("; {} client{} empty", sizes.empty, sizes.empty == 1 ? " is" : "s are") : "");
}

std::string why(const PartitionInfo& info) {
  std::string text = info.method.empty() ? "unknown method" : info.method;
  for (const auto& [name, value] : info.numbers) text += fmt::format(", {} {:g}", name, value);
  for (const auto& [name, value] : info.choices) text += fmt::format(", {} {}", name, printable(value));
  if (info.seed) text += fmt::format(", seed {}", *info.seed);
  return text;
}

std::vector<std::size_t> evenly(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < std::min(count, most); ++i) chosen.push_back(count <= most ? i : i * count / most);
  return chosen;
}

std::string client_lines(const PartitionReport& report, const PictureStyle& style) {
  const Partition& partition = *report.partition;
  const std::vector<std::size_t> rows = evenly(partition.clients(), style.rows);
  std::size_t name_width = 6;
  const auto name_of = [&](std::size_t c) {
    return partition.client_names.empty() ? fmt::format("{}", c) : shortened(partition.client_names[c], 20);
  };
  for (const std::size_t c : rows) name_width = std::max(name_width, display_width(name_of(c)));

  const std::size_t room = style.width > name_width + 20 ? style.width - name_width - 20 : 20;
  const std::size_t labels = report.labels.names.size();
  const std::size_t bar_width = labels == 0 ? room : std::max<std::size_t>(10, room / 3);
  const std::size_t cells = labels == 0 ? 0 : std::min(labels, room - std::min(room, bar_width + 8));
  const std::size_t wide = cells > 0 && labels <= cells / 2 ? 2 : 1;

  std::string text =
      fmt::format("\n{:>{}}  {:>6} {:>6}  {:<{}}", "client", name_width, "train", "test", "size", bar_width);
  if (cells > 0)
    text +=
        fmt::format("  {:<{}}  labels", "label mix", std::max<std::size_t>(9, cells == labels ? labels * wide : cells));
  text += '\n';
  for (const std::size_t c : rows) {
    const std::string name = name_of(c);
    const auto size = static_cast<double>(partition.train.size_of(c));
    text +=
        fmt::format("{}{}  {:>6} {:>6}  {}", std::string(name_width - display_width(name), ' '), name,
                    partition.train.size_of(c), partition.test.size_of(c), bar(size, report.train.maximum, bar_width));
    if (cells > 0) {
      const std::vector<std::size_t> histogram = label_histogram(partition.train, c, report.labels);
      // With more labels than columns, neighbouring labels share one.
      std::vector<double> merged(std::min(labels, cells));
      for (std::size_t l = 0; l < labels; ++l) merged[l * merged.size() / labels] += static_cast<double>(histogram[l]);
      text += "  ";
      for (const double count : merged) text += shade(size > 0 ? count / size : 0, wide, style.colour);
      const std::size_t shown = merged.size() * wide;
      text += fmt::format("{}  {:6.1f}", std::string(shown < 9 ? 9 - shown : 0, ' '), effective_labels(histogram));
    }
    text += '\n';
  }
  if (rows.size() < partition.clients()) {
    text += fmt::format("({} of {} clients, evenly spread)\n", rows.size(), partition.clients());
  }
  if (cells > 0) {
    text += fmt::format("label mix: share of each of {} labels", labels);
    for (const double level : {0.1, 0.3, 0.5, 0.7, 0.9}) {
      text += fmt::format("  {} {:.0f}-{:.0f} %", shade(level, 1, style.colour), level * 100 - 10, level * 100 + 10);
    }
    text += "; labels: effective number, exp(entropy)\n";
  }
  return text;
}

std::string matrix_lines(const PartitionReport& report, const PictureStyle& style) {
  const JsMatrix& js = *report.js;
  const std::vector<std::size_t> shown = evenly(js.clients.size(), std::min(style.rows, (style.width - 8) / 2));
  if (shown.size() < 2) return "";
  std::string text = "\nJensen-Shannon divergence between clients' labels (base 2, 0 to 1)\n";
  for (const std::size_t i : shown) {
    text += fmt::format("{:>6}  ", js.clients[i]);
    for (const std::size_t j : shown) text += shade(js.at(i, j), 2, style.colour);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string report_picture(const PartitionReport& report, const PictureStyle& style) {
  const Partition& partition = *report.partition;
  std::string text =
      fmt::format("{}: {} clients ({})\n", printable(partition.info.group), partition.clients(), why(partition.info));
  text += summary_line("train", report.train, partition.train);
  text += summary_line("test", report.test, partition.test);
  if (report.coverage) {
    text += report.coverage->exact() ? "  every example of the data belongs to exactly one client\n"
                                     : fmt::format("  {} examples belong to no client, {} ids are repeated\n",
                                                   report.coverage->missing, report.coverage->repeated);
  }
  if (report.js) {
    text += fmt::format(
        "  labels: {} in total, {:.1f} effective per client; mean Jensen-Shannon divergence {:.4f} (distance {:.4f}) "
        "over {} clients\n",
        report.labels.names.size(), report.mean_effective_labels, report.js->mean_divergence, report.js->mean_distance,
        report.js->clients.size());
  }
  if (report.vocabulary) {
    const VocabularyOverlap& overlap = *report.vocabulary;
    text += fmt::format(
        "  words: {:.0f} distinct per client; two clients share {:.1f} % (Jaccard, {:.1f} to {:.1f} %); "
        "{:.1f} % of a client's words also occur at another client\n",
        overlap.mean_words, overlap.mean_jaccard * 100, overlap.lowest_jaccard * 100, overlap.highest_jaccard * 100,
        overlap.mean_share * 100);
  }
  if (partition.clients() > 0) text += client_lines(report, style);
  if (report.js) text += matrix_lines(report, style);
  return text;
}

}  // namespace chorus::inline partition

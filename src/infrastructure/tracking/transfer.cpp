#include "infrastructure/tracking/transfer.h"

#include <fmt/format.h>

#include "core/console/text_table.h"

namespace chorus::inline tracking {

std::string segment_score_name(std::size_t segment, bool before) {
  return fmt::format("segment {}{}", segment + 1, before ? " before" : "");
}

std::optional<Transfer> transfer_of(const RunSummary& summary) {
  const std::size_t count = summary.phases.size();
  if (count < 2) return std::nullopt;
  Transfer transfer;
  for (std::size_t row = 0; row <= count; ++row) {
    const Scores& scores = summary.phases[row == 0 ? 0 : row - 1].last;
    transfer.scores.emplace_back();
    for (std::size_t segment = 0; segment < count; ++segment) {
      const auto found = scores.find(segment_score_name(segment, row == 0));
      if (found == scores.end()) return std::nullopt;
      transfer.scores.back().push_back(found->second);
    }
  }
  const auto& r = transfer.scores;
  for (std::size_t j = 0; j + 1 < count; ++j) transfer.backward += r[count][j] - r[j + 1][j];
  for (std::size_t j = 1; j < count; ++j) transfer.forward += r[j][j] - r[0][j];
  const double scale = (summary.higher_is_better ? 1 : -1) / static_cast<double>(count - 1);
  transfer.backward *= scale;
  transfer.forward *= scale;
  return transfer;
}

std::string transfer_text(const Transfer& transfer) {
  std::vector<TextTable::Column> columns = {{"after"}};
  for (std::size_t j = 0; j < transfer.scores.front().size(); ++j) {
    columns.push_back({fmt::format("segment {}", j + 1), TextTable::Align::kRight});
  }
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < transfer.scores.size(); ++i) {
    std::vector<std::string> cells{i == 0 ? "nothing" : fmt::format("segment {}", i)};
    for (const double score : transfer.scores[i]) cells.push_back(fmt::format("{:.4f}", score));
    table.add(std::move(cells));
  }
  return table.render() + fmt::format("backward transfer {:+.4f} (negative: forgetting), forward transfer {:+.4f}\n",
                                      transfer.backward, transfer.forward);
}

}  // namespace chorus::inline tracking

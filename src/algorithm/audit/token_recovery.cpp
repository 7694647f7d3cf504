#include "algorithm/audit/token_recovery.h"

#include <algorithm>
#include <set>
#include <vector>

namespace chorus::inline audit {

TokenRecovery token_recovery(std::span<const std::int64_t> text, std::span<const std::int64_t> found) {
  TokenRecovery result;
  const std::set<std::int64_t> truth(text.begin(), text.end()), guessed(found.begin(), found.end());
  if (truth.empty() || guessed.empty()) return result;
  double common = 0;
  for (const std::int64_t token : guessed) common += truth.contains(token) ? 1 : 0;
  result.recall = common / static_cast<double>(truth.size());
  result.precision = common / static_cast<double>(guessed.size());
  std::vector<std::size_t> row(found.size() + 1, 0);
  for (const std::int64_t token : text) {
    std::size_t corner = 0;
    for (std::size_t j = 1; j <= found.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = found[j - 1] == token ? corner + 1 : std::max(row[j], row[j - 1]);
      corner = above;
    }
  }
  const auto longest = static_cast<double>(row.back());
  result.rouge_l = 2 * longest / static_cast<double>(text.size() + found.size());
  return result;
}

}  // namespace chorus::inline audit

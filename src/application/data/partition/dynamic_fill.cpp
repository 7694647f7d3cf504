#include "application/data/partition/dynamic_fill.h"

#include <algorithm>
#include <numeric>

namespace chorus::inline partition {

std::vector<std::size_t> dynamic_fill(std::span<const std::size_t> remaining, std::size_t need, std::size_t exhausted) {
  std::vector<std::size_t> given(remaining.size(), 0);
  std::vector<std::size_t> order;
  std::size_t total = 0;
  for (std::size_t k = 0; k < remaining.size(); ++k) {
    if (k == exhausted || remaining[k] == 0) continue;
    order.push_back(k);
    total += remaining[k];
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remaining[a] < remaining[b]; });

  std::size_t lacking = need;
  for (int pass = 0; pass < 2 && lacking > 0; ++pass) {
    for (const std::size_t k : order) {
      const std::size_t base = pass == 0 ? need : lacking;
      // ceil(r_k * base / R) in integers: a floating-point ratio can round an integer up by one.
      const std::size_t share = (remaining[k] * base + total - 1) / total;
      const std::size_t take = std::min({share, remaining[k] - given[k], lacking});
      given[k] += take;
      lacking -= take;
      if (lacking == 0) break;
    }
  }
  return given;
}

}  // namespace chorus::inline partition

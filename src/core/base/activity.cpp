#include "core/base/activity.h"

#include <algorithm>

namespace chorus::inline base {

std::vector<std::uint32_t> by_activity(std::span<const double> sizes) {
  std::vector<std::uint32_t> order;
  order.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) order.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return sizes[a] < sizes[b]; });
  return order;
}

}  // namespace chorus::inline base

#include "algorithm/secure/graph/neighbour_graph.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline secure_graph {

NeighbourGraph::NeighbourGraph(std::vector<std::uint32_t> order, std::size_t k)
    : order_(std::move(order)), place_(order_.size()), half_(k + 1 >= order_.size() ? 0 : k / 2) {
  check(half_ == 0 || k % 2 == 0, "a graph of neighbours has an even degree, or is complete");
  check(k > 0 || order_.size() <= 1, "a graph of neighbours needs a degree");
  for (std::size_t i = 0; i < order_.size(); ++i) place_.at(order_[i]) = static_cast<std::uint32_t>(i);
}

std::vector<std::uint32_t> NeighbourGraph::neighbours(std::uint32_t client) const {
  const std::size_t n = order_.size();
  std::vector<std::uint32_t> result;
  if (half_ == 0) {
    for (std::uint32_t other = 0; other < n; ++other) {
      if (other != client) result.push_back(other);
    }
    return result;
  }
  for (std::size_t step = 1; step <= half_; ++step) {
    result.push_back(order_[(place_[client] + step) % n]);
    result.push_back(order_[(place_[client] + n - step) % n]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool NeighbourGraph::adjacent(std::uint32_t a, std::uint32_t b) const {
  if (a == b) return false;
  if (half_ == 0) return true;
  const std::size_t n = order_.size();
  const std::size_t ahead = (place_[a] + n - place_[b]) % n;
  return std::min(ahead, n - ahead) <= half_;
}

}  // namespace chorus::inline secure_graph

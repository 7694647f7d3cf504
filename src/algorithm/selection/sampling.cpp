#include "algorithm/selection/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline selection {

std::vector<ClientId> sample_uniform(std::vector<ClientId> clients, std::size_t count, RandomStream& stream) {
  check(count <= clients.size(), "the sample is larger than the population");
  for (std::size_t i = 0; i < count; ++i) std::swap(clients[i], clients[i + stream.below(clients.size() - i)]);
  clients.resize(count);
  return clients;
}

std::vector<std::size_t> sample_successive(std::span<const double> weights, std::size_t count, RandomStream& stream) {
  check(count <= weights.size(), "the sample is larger than the population");
  std::vector<double> keys(weights.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check(weights[i] > 0, "a weight is not positive");
    keys[i] = -std::log1p(-stream.uniform()) / weights[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(order.begin(), end, order.end(), before);
  std::sort(order.begin(), end, before);
  order.resize(count);
  return order;
}

std::vector<std::size_t> sample_with_replacement(std::span<const double> weights, std::size_t count,
                                                 RandomStream& stream) {
  std::vector<double> ends(weights.size());
  double total = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    check(weights[i] > 0, "a weight is not positive");
    ends[i] = total += weights[i];
  }
  check(total > 0, "the population is empty");
  std::vector<std::size_t> drawn(count);
  for (std::size_t& index : drawn) {
    const auto found = std::upper_bound(ends.begin(), ends.end(), stream.uniform() * total);
    index = std::min(static_cast<std::size_t>(found - ends.begin()), ends.size() - 1);
  }
  return drawn;
}

}  // namespace chorus::inline selection

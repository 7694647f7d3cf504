#include "algorithm/selection/stratified.h"

#include <algorithm>
#include <numeric>

#include "algorithm/selection/sampling.h"
#include "core/base/activity.h"
#include "core/base/rng.h"

namespace chorus::inline selection {
namespace {

/// count * numbers[s] / total each, largest remainders rounded up.
std::vector<std::size_t> spread(std::size_t count, std::span<const std::size_t> numbers, RandomStream& stream) {
  const std::size_t total = std::accumulate(numbers.begin(), numbers.end(), std::size_t{0});
  std::vector<std::size_t> quotas(numbers.size()), order(numbers.size());
  std::size_t left = count;
  for (std::size_t s = 0; s < numbers.size(); ++s) left -= quotas[s] = count * numbers[s] / total;
  std::iota(order.begin(), order.end(), std::size_t{0});
  stream.shuffle(std::span(order));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return count * numbers[a] % total > count * numbers[b] % total;
  });
  for (std::size_t i = 0; i < left; ++i) ++quotas[order[i]];
  return quotas;
}

}  // namespace

void StratifiedConfig::describe(ConfigVisitor& v) {
  v.field("strata", strata, "number of groups of clients of similar size").at_least(1).at_most(1'000'000);
}

std::vector<ClientId> StratifiedSelector::select(const SelectionContext& context) const {
  std::vector<double> sizes(context.sizes.size(), 0);
  const std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, clients.size(), "reachable clients with data");
  for (const ClientId client : clients) sizes[client] = context.sizes[client];
  const std::vector<ClientId> order = by_activity(sizes);

  const auto strata = std::min(static_cast<std::size_t>(config_.strata), order.size());
  std::vector<std::size_t> numbers(strata);
  for (std::size_t s = 0; s < strata; ++s) {
    numbers[s] = group_begin(order.size(), s + 1, strata) - group_begin(order.size(), s, strata);
  }
  RandomStream stream({.seed = context.seed, .purpose = "selection.stratified", .round = context.round});
  const std::vector<std::size_t> quotas = spread(context.count, numbers, stream);
  std::vector<ClientId> cohort;
  cohort.reserve(context.count);
  for (std::size_t s = 0; s < strata; ++s) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(group_begin(order.size(), s, strata));
    const std::vector<ClientId> drawn =
        sample_uniform({begin, begin + static_cast<std::ptrdiff_t>(numbers[s])}, quotas[s], stream);
    cohort.insert(cohort.end(), drawn.begin(), drawn.end());
  }
  return cohort;
}

namespace {

const Registration<Selectors, StratifiedConfig> kRegisteredStratified{
    "stratified", "the same shares of light and heavy clients in every round",
    [](const StratifiedConfig& config) { return std::make_unique<StratifiedSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection

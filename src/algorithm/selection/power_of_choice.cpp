#include "algorithm/selection/power_of_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "algorithm/selection/sampling.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

void PowerOfChoiceConfig::describe(ConfigVisitor& v) {
  v.field("candidates", candidates, "clients that are asked for their loss; 0: twice the clients per round")
      .at_least(0);
}

std::vector<ClientId> PowerOfChoiceSelector::select(const SelectionContext& context) const {
  if (!context.losses) {
    throw ConfigError(
        "power_of_choice needs the current losses of its candidates, which this run cannot provide; choose another "
        "selector");
  }
  const std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, clients.size(), "reachable clients with data");
  const std::size_t wanted = config_.candidates > 0 ? static_cast<std::size_t>(config_.candidates) : 2 * context.count;
  if (wanted < context.count) {
    throw ConfigError(
        fmt::format("power_of_choice draws {} candidates for {} clients per round; set candidates to at least {}",
                    wanted, context.count, context.count));
  }
  std::vector<double> sizes(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) sizes[i] = context.sizes[clients[i]];
  RandomStream stream({.seed = context.seed, .purpose = "selection.power_of_choice", .round = context.round});
  std::vector<ClientId> candidates;
  for (const std::size_t i : sample_successive(sizes, std::min(wanted, clients.size()), stream)) {
    candidates.push_back(clients[i]);
  }

  std::vector<double> losses = context.losses(candidates);
  check(losses.size() == candidates.size(), "every candidate needs one loss");
  for (double& loss : losses) {
    if (std::isnan(loss)) loss = -std::numeric_limits<double>::infinity();
  }
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return losses[a] > losses[b]; });
  std::vector<ClientId> cohort(context.count);
  for (std::size_t i = 0; i < cohort.size(); ++i) cohort[i] = candidates[order[i]];
  return cohort;
}

namespace {

const Registration<Selectors, PowerOfChoiceConfig> kRegisteredPowerOfChoice{
    "power_of_choice", "the highest losses among random candidates (Cho et al. 2020)",
    [](const PowerOfChoiceConfig& config) { return std::make_unique<PowerOfChoiceSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection

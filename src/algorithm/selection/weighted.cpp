#include "algorithm/selection/weighted.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithm/selection/sampling.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

double apply(SizeFunction f, double n) {
  switch (f) {
    case SizeFunction::kOne:
      return 1;
    case SizeFunction::kLog:
      return std::log1p(n);
    case SizeFunction::kSqrt:
      return std::sqrt(n);
    case SizeFunction::kLinear:
      return n;
    case SizeFunction::kInverseLog:
      return 1 / std::log1p(n);
  }
  throw InternalError("an unknown function of the size");
}

std::vector<double> weights_of(SizeFunction f, std::span<const double> sizes) {
  std::vector<double> weights(sizes.size(), 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) weights[i] = apply(f, sizes[i]);
  }
  return weights;
}

void WeightedConfig::describe(ConfigVisitor& v) {
  v.field("f", f,
          {{"one", SizeFunction::kOne},
           {"log", SizeFunction::kLog},
           {"sqrt", SizeFunction::kSqrt},
           {"linear", SizeFunction::kLinear},
           {"inverse_log", SizeFunction::kInverseLog}},
          "weight of a client with n examples: 1, log(n+1), sqrt(n), n or 1/log(n+1)");
  v.field("replacement", replacement, "whether a client can be drawn more than once per round");
}

std::vector<ClientId> WeightedSelector::select(const SelectionContext& context) const {
  std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, config_.replacement && !clients.empty() ? context.count : clients.size(),
              "reachable clients with data");
  std::vector<double> weights(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) weights[i] = apply(config_.f, context.sizes[clients[i]]);
  RandomStream stream({.seed = context.seed, .purpose = "selection.weighted", .round = context.round});
  const std::vector<std::size_t> drawn = config_.replacement ? sample_with_replacement(weights, context.count, stream)
                                                             : sample_successive(weights, context.count, stream);
  std::vector<ClientId> cohort(drawn.size());
  std::transform(drawn.begin(), drawn.end(), cohort.begin(), [&](std::size_t i) { return clients[i]; });
  return cohort;
}

std::size_t WeightedSelector::most(const SelectionContext& context) const {
  const std::size_t clients = Selector::most(context);
  return config_.replacement && clients > 0 ? std::numeric_limits<std::size_t>::max() : clients;
}

namespace {

const Registration<Selectors, WeightedConfig> kRegisteredWeighted{
    "weighted", "with a probability f(number of examples) (Dupuy et al. 2022)",
    [](const WeightedConfig& config) { return std::make_unique<WeightedSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection

#include "apps/experiment/client_networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline experiment {

std::vector<int> assign_networks(const ClientsConfig& config, std::span<const double> sizes, std::uint64_t seed) {
  std::vector<int> result(sizes.size(), -1);
  std::vector<bool> listed(sizes.size(), false);
  double shares = 0;
  for (std::size_t m = 0; m < config.models.size(); ++m) {
    const ClientModelConfig& network = config.models[m];
    if (network.clients.empty()) shares += network.share;
    for (const std::int64_t client : network.clients) {
      if (client < 0 || client >= static_cast<std::int64_t>(sizes.size())) {
        throw ConfigError(fmt::format("clients.models: {} lists client {}, but there are {} clients, from 0 on",
                                      network.name, client, sizes.size()));
      }
      const auto index = static_cast<std::size_t>(client);
      if (listed[index]) throw ConfigError(fmt::format("clients.models: client {} is listed twice", client));
      listed[index] = true;
      result[index] = static_cast<int>(m);
    }
  }
  if (shares > 1 + 1e-9) {
    throw ConfigError(fmt::format("clients.models: the shares add up to {:g}; they may be 1 at most", shares));
  }
  std::vector<std::size_t> others;
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    if (!listed[c]) others.push_back(c);
  }
  if (config.model_order == ClientsConfig::ModelOrder::kRandom) {
    RandomStream({.seed = seed, .purpose = "client networks"}).shuffle(std::span(others));
  } else {
    std::stable_sort(others.begin(), others.end(), [&](std::size_t a, std::size_t b) { return sizes[a] < sizes[b]; });
  }
  // Split at the rounded cumulative sums, so that every network gets its share within one client.
  double sum = 0;
  std::size_t next = 0;
  for (std::size_t m = 0; m < config.models.size(); ++m) {
    if (!config.models[m].clients.empty()) continue;
    sum += config.models[m].share;
    const auto end = static_cast<std::size_t>(std::llround(std::min(sum, 1.0) * static_cast<double>(others.size())));
    if (next >= end) {
      throw ConfigError(
          fmt::format("clients.models: {} has a share of {:g} of {} clients, which is none; raise it, or list clients",
                      config.models[m].name, config.models[m].share, others.size()));
    }
    for (; next < end; ++next) result[others[next]] = static_cast<int>(m);
  }
  return result;
}

ExperimentConfig config_with(const ExperimentConfig& config, const ClientModelConfig& network) {
  ExperimentConfig result = config;
  result.model = network.model;
  result.tuning = network.tuning;
  return result;
}

}  // namespace chorus::inline experiment

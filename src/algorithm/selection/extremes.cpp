#include "algorithm/selection/extremes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/selection/sampling.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

void ExtremesConfig::describe(ConfigVisitor& v) {
  v.field("share", share, "share of the clients with data that may be selected").above(0).at_most(1);
}

std::vector<ClientId> ExtremesSelector::members(const SelectionContext& context) const {
  SelectionContext all = context;
  all.reachable = {};
  std::vector<ClientId> clients = eligible_clients(all);
  // 0.2 * 15 is slightly more than 3 in double precision.
  const auto kept = std::min(
      clients.size(), static_cast<std::size_t>(std::ceil(config_.share * static_cast<double>(clients.size()) - 1e-9)));
  const auto end = clients.begin() + static_cast<std::ptrdiff_t>(kept);
  std::nth_element(clients.begin(), end, clients.end(), [&](ClientId a, ClientId b) {
    const bool less_active = context.sizes[a] != context.sizes[b] ? context.sizes[a] < context.sizes[b] : a < b;
    return less_active != heavy_;
  });
  clients.resize(kept);
  if (!context.reachable.empty()) std::erase_if(clients, [&](ClientId c) { return context.reachable[c] == 0; });
  std::sort(clients.begin(), clients.end());
  return clients;
}

std::size_t ExtremesSelector::most(const SelectionContext& context) const { return members(context).size(); }

std::vector<ClientId> ExtremesSelector::select(const SelectionContext& context) const {
  std::vector<ClientId> clients = members(context);
  check_count(context, clients.size(),
              fmt::format("reachable {} clients, the {:g} % with {} data (share: {:g})", heavy_ ? "heavy" : "light",
                          100 * config_.share, heavy_ ? "most" : "least", config_.share));
  RandomStream stream(
      {.seed = context.seed, .purpose = heavy_ ? "selection.heavy" : "selection.light", .round = context.round});
  return sample_uniform(std::move(clients), context.count, stream);
}

namespace {

const Registration<Selectors, ExtremesConfig> kRegisteredHeavy{
    "heavy", "uniform among the 20 % with most data (Dupuy et al. 2022)",
    [](const ExtremesConfig& config) { return std::make_unique<ExtremesSelector>(config, true); }};
const Registration<Selectors, ExtremesConfig> kRegisteredLight{
    "light", "uniform among the 20 % with least data (Dupuy et al. 2022)",
    [](const ExtremesConfig& config) { return std::make_unique<ExtremesSelector>(config, false); }};

}  // namespace
}  // namespace chorus::inline selection

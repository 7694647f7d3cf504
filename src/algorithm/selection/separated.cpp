#include "algorithm/selection/separated.h"

#include <algorithm>

#include "algorithm/selection/sampling.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

void SeparatedConfig::describe(ConfigVisitor& v) {
  v.field("separation", separation, "a client takes part at most once in so many rounds in a row").at_least(1);
}

std::uint64_t SeparatedSelector::group_of(ClientId client, std::uint64_t seed, std::int64_t separation) {
  RandomStream stream({.seed = seed, .purpose = "selection.separated", .client = client});
  return stream.below(static_cast<std::uint64_t>(separation));
}

std::vector<ClientId> SeparatedSelector::select(const SelectionContext& context) const {
  std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, clients.size(), "reachable clients with data");
  const std::uint64_t turn = context.round % static_cast<std::uint64_t>(config_.separation);
  std::erase_if(clients, [&](ClientId c) { return group_of(c, context.seed, config_.separation) != turn; });
  RandomStream stream({.seed = context.seed, .purpose = "selection.separated.draw", .round = context.round});
  const std::size_t count = std::min(context.count, clients.size());
  return count == 0 ? std::vector<ClientId>{} : sample_uniform(std::move(clients), count, stream);
}

namespace {

const Registration<Selectors, SeparatedConfig> kRegisteredSeparated{
    "separated", "a client takes part at most once in so many rounds (for DP-FTRL)",
    [](const SeparatedConfig& config) { return std::make_unique<SeparatedSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection

#include "algorithm/selection/uniform.h"

#include "algorithm/selection/sampling.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

std::vector<ClientId> UniformSelector::select(const SelectionContext& context) const {
  std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, clients.size(), "reachable clients with data");
  RandomStream stream({.seed = context.seed, .purpose = "selection.uniform", .round = context.round});
  return sample_uniform(std::move(clients), context.count, stream);
}

namespace {

const Registration<Selectors> kRegisteredUniform{"uniform", "all clients with data equally likely",
                                                 [] { return std::make_unique<UniformSelector>(); }};

}  // namespace
}  // namespace chorus::inline selection

#include "algorithm/selection/selector.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline selection {

std::size_t Selector::most(const SelectionContext& context) const { return eligible_clients(context).size(); }

std::vector<ClientId> eligible_clients(const SelectionContext& context) {
  check(context.reachable.empty() || context.reachable.size() == context.sizes.size(),
        "reachable and sizes have different numbers of clients");
  std::vector<ClientId> clients;
  clients.reserve(context.sizes.size());
  for (std::size_t client = 0; client < context.sizes.size(); ++client) {
    const double size = context.sizes[client];
    check(size >= 0 && std::isfinite(size), "the size of a client is negative or not a number");
    if (size > 0 && (context.reachable.empty() || context.reachable[client] != 0)) {
      clients.push_back(static_cast<ClientId>(client));
    }
  }
  return clients;
}

void check_count(const SelectionContext& context, std::size_t pool, std::string_view who) {
  if (context.count == 0) throw ConfigError("clients_per_round is 0; it must be at least 1");
  if (context.count > pool) {
    throw ConfigError(
        fmt::format("clients_per_round is {}, but there are {} {} (of {} clients in total); set it to at most {}",
                    context.count, pool, who, context.sizes.size(), pool));
  }
}

}  // namespace chorus::inline selection

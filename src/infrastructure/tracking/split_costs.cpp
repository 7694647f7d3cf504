#include "infrastructure/tracking/split_costs.h"

#include <fmt/format.h>

#include <algorithm>

namespace chorus::inline tracking {

std::optional<SplitCosts> split_costs(std::span<const Event> events) {
  std::optional<SplitCosts> costs;
  for (const Event& event : events) {
    if (event.kind != "round" || !event.numbers.contains("activation_bytes_up")) continue;
    const auto of = [&](const char* name) {
      const auto found = event.numbers.find(name);
      return found == event.numbers.end() ? 0.0 : found->second;
    };
    if (!costs) costs.emplace();
    costs->up += of("activation_bytes_up");
    costs->down += of("activation_bytes_down");
    costs->client_memory = std::max(costs->client_memory, of("client_memory"));
    costs->server_memory = std::max(costs->server_memory, of("server_memory"));
    costs->client_parameters = of("client_parameters");
    costs->server_parameters = of("server_parameters");
  }
  return costs;
}

std::string split_costs_text(const SplitCosts& costs) {
  constexpr double kMega = 1e6;
  return fmt::format(
      "client side: {:.2f} M parameters, {:.1f} MB of memory, {:.1f} MB of activations sent\n"
      "server side: {:.2f} M parameters, {:.1f} MB of memory, {:.1f} MB of gradients sent\n",
      costs.client_parameters / kMega, costs.client_memory / kMega, costs.up / kMega, costs.server_parameters / kMega,
      costs.server_memory / kMega, costs.down / kMega);
}

}  // namespace chorus::inline tracking

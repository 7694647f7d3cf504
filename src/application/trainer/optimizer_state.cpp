#include "application/trainer/optimizer_state.h"

#include <map>
#include <string>
#include <string_view>

namespace chorus::inline trainer {
namespace {

constexpr std::string_view kStatePrefix = "optimizer.";

}  // namespace

void restore_optimizer(Optimizer& optimizer, std::span<ClientState* const> states) {
  for (std::size_t c = 0; c < states.size(); ++c) {
    std::map<std::string, at::Tensor> kept;
    for (const auto& [name, tensor] : *states[c]) {
      if (name.starts_with(kStatePrefix)) kept[name.substr(kStatePrefix.size())] = tensor;
    }
    optimizer.restore(static_cast<std::int64_t>(c), kept);
  }
}

void store_optimizer(Optimizer& optimizer, std::span<ClientState* const> states) {
  for (std::size_t c = 0; c < states.size(); ++c) {
    for (auto& [name, tensor] : optimizer.state(static_cast<std::int64_t>(c))) {
      (*states[c])[std::string(kStatePrefix) + name] = tensor;
    }
  }
}

}  // namespace chorus::inline trainer

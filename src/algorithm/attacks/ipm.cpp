#include "algorithm/attacks/ipm.h"

#include <ATen/ATen.h>

namespace chorus::inline attacks {

void IpmConfig::describe(ConfigVisitor& visitor) {
  visitor.field("epsilon", epsilon, "sends minus this times the mean of the honest updates").above(0);
}

std::vector<at::Tensor> Ipm::corrupt(const AttackInput& input) const {
  const std::span<const at::Tensor> known = input.others.empty() ? input.own : input.others;
  if (known.empty()) return {};
  at::Tensor sum = at::zeros_like(known.front());
  for (const at::Tensor& update : known) sum.add_(update);
  sum.mul_(-config_.epsilon / static_cast<double>(known.size()));
  return std::vector<at::Tensor>(input.own.size(), sum);
}

namespace {

const Registration<Attacks, IpmConfig> kRegisteredIpm{
    "ipm",
    "inner product manipulation: minus epsilon times the honest mean (Xie et al. 2020)",
    [](const IpmConfig& config) { return std::make_unique<Ipm>(config); },
    {.sees = Attack::Sees::kEveryone}};

}  // namespace
}  // namespace chorus::inline attacks

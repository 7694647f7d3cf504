#include "algorithm/attacks/scaling.h"

#include <ATen/ATen.h>

namespace chorus::inline attacks {

void SignFlipConfig::describe(ConfigVisitor& visitor) {
  visitor.field("factor", factor, "sends minus this times the honest update").above(0);
}

void ScalingConfig::describe(ConfigVisitor& visitor) {
  visitor.field("factor", factor, "sends this times the honest update").above(0);
}

std::vector<at::Tensor> Scaling::corrupt(const AttackInput& input) const {
  std::vector<at::Tensor> sent;
  for (const at::Tensor& update : input.own) sent.push_back(update * factor_);
  return sent;
}

namespace {

const Registration<Attacks, SignFlipConfig> kRegisteredSignFlip{
    "sign_flip", "the honest update with its sign flipped",
    [](const SignFlipConfig& config) { return std::make_unique<Scaling>(-config.factor); }};
const Registration<Attacks, ScalingConfig> kRegisteredScaling{
    "scaling", "a multiple of the honest update",
    [](const ScalingConfig& config) { return std::make_unique<Scaling>(config.factor); }};

}  // namespace
}  // namespace chorus::inline attacks

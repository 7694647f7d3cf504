#include "algorithm/attacks/gaussian.h"

#include <ATen/ATen.h>

namespace chorus::inline attacks {

void GaussianConfig::describe(ConfigVisitor& visitor) {
  visitor.field("deviation", deviation, "standard deviation of each value sent").above(0);
}

void FreeRiderConfig::describe(ConfigVisitor& visitor) {
  visitor.field("deviation", deviation, "standard deviation of the noise that hides the missing work; 0: none")
      .at_least(0);
}

std::vector<at::Tensor> Gaussian::corrupt(const AttackInput& input) const {
  std::vector<at::Tensor> sent;
  RandomStream stream(input.key);
  for (const at::Tensor& update : input.own) {
    at::Tensor values = at::zeros(update.sizes(), at::kFloat);
    if (deviation_ > 0) {
      float* element = values.data_ptr<float>();
      for (std::int64_t i = 0; i < values.numel(); ++i) element[i] = static_cast<float>(deviation_ * stream.normal());
    }
    sent.push_back(values.to(update.device()));
  }
  return sent;
}

namespace {

const Registration<Attacks, GaussianConfig> kRegisteredGaussian{
    "gaussian", "random values instead of an update (Blanchard et al. 2017)",
    [](const GaussianConfig& config) { return std::make_unique<Gaussian>(config.deviation); }};
const Registration<Attacks, FreeRiderConfig> kRegisteredFreeRider{
    "free_rider", "no change, or a little noise, instead of an update (Lin et al. 2019)",
    [](const FreeRiderConfig& config) { return std::make_unique<Gaussian>(config.deviation); }};

}  // namespace
}  // namespace chorus::inline attacks

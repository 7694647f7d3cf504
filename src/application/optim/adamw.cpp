#include "application/optim/adamw.h"

#include <torch/torch.h>

#include <cmath>

namespace chorus {

void AdamWConfig::describe(ConfigVisitor& visitor) {
  visitor.field("beta1", beta1, "decay of the first moment").at_least(0).below(1);
  visitor.field("beta2", beta2, "decay of the second moment").at_least(0).below(1);
  visitor.field("epsilon", epsilon, "added to the root of the second moment").above(0);
}

AdamW::AdamW(const AdamWConfig& config, const OptimizerInput& input)
    : Optimizer(input),
      config_(config),
      first_(buffer("first", input.layout->trainable_size())),
      second_(buffer("second", input.layout->trainable_size())) {}

void AdamW::update(const Rows& rows) {
  const at::Tensor first = first_.narrow(0, 0, rows.count);
  const at::Tensor second = second_.narrow(0, 0, rows.count);
  std::vector<double> size, root;
  for (std::int64_t c = 0; c < rows.count; ++c) {
    const double step = steps(rows.count)[static_cast<std::size_t>(c)];
    size.push_back(-rows.rates[static_cast<std::size_t>(c)] / (1 - std::pow(config_.beta1, step)));
    root.push_back(1 / std::sqrt(1 - std::pow(config_.beta2, step)));
  }
  first.mul_(config_.beta1).add_(rows.gradients, 1 - config_.beta1);
  second.mul_(config_.beta2).addcmul_(rows.gradients, rows.gradients, 1 - config_.beta2);
  decay_values(rows);
  const at::Tensor scale = second.sqrt().mul_(column(root)).add_(config_.epsilon);
  rows.values.add_(first.div(scale).mul_(column(size)));
}

namespace {

const Registration<Optimizers, AdamWConfig> kRegisteredAdamW{
    "adamw", "AdamW with decoupled weight decay (Loshchilov and Hutter 2019)",
    [](const AdamWConfig& config, const OptimizerInput& input) { return std::make_unique<AdamW>(config, input); }};

}  // namespace
}  // namespace chorus

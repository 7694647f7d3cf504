#include "application/optim/sgd.h"

#include <torch/types.h>

#include <cmath>

#include "core/bfloat16.h"

namespace chorus {

void SgdConfig::describe(ConfigVisitor& visitor) {
  visitor.field("momentum", momentum, "0: plain gradient descent").at_least(0).below(1);
  visitor.field("nesterov", nesterov, "look ahead; needs momentum");
  visitor.check([this] { return nesterov && momentum == 0 ? "nesterov needs a momentum above 0" : ""; });
}

Sgd::Sgd(const SgdConfig& config, const OptimizerInput& input) : Optimizer(input), config_(config) {
  if (config.momentum > 0) momentum_ = buffer("momentum", input.layout->trainable_size());
}

double Sgd::reach(double steps) const {
  const double rho = config_.momentum;
  return (steps - rho * (1 - std::pow(rho, steps)) / (1 - rho)) / (1 - rho);
}

void Sgd::update(const Rows& rows) {
  if (rows.scale.defined()) rows.gradients.mul_(rows.scale);
  decay_gradients(rows);
  at::Tensor direction = rows.gradients;
  if (config_.momentum > 0) {
    const at::Tensor momentum = momentum_.narrow(0, 0, rows.count).narrow(1, 0, rows.values.size(1));
    momentum.mul_(config_.momentum).add_(rows.gradients);
    direction = config_.nesterov ? rows.gradients.add(momentum, config_.momentum) : momentum;
  }
  const at::Tensor rates = column(rows.rates);
  at::Tensor values = rows.values;
  if (rates.dim() == 0) {
    at::sub_out(values, rows.before, direction, rows.rates[0]);
  } else {
    at::sub_out(values, rows.before, direction * rates);
  }
  if (rows.half.defined()) put_as_bfloat16(rows.half, values);
}

namespace {

const Registration<Optimizers, SgdConfig> kRegisteredSgd{
    "sgd", "gradient descent, with momentum if asked for",
    [](const SgdConfig& config, const OptimizerInput& input) { return std::make_unique<Sgd>(config, input); }};

}  // namespace
}  // namespace chorus

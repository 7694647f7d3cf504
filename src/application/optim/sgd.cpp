#include "application/optim/sgd.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "application/optim/flat_kernels.h"
#include "core/device/backend.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline optim {

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
  if (backend_for(rows.values, {.cpu = true}) == Backend::kCpu) {
    go_down(rows, direction);
    return;
  }
  const at::Tensor rates = column(rows.rates);
  at::Tensor values = rows.values;
  if (rates.dim() == 0) {
    at::sub_out(values, rows.before, direction, rows.rates[0]);
  } else {
    at::sub_out(values, rows.before, direction * rates);
  }
  if (rows.shadow.defined()) put_as_bfloat16(rows.shadow, values);
}

// In pieces that stay in the cache until they are rounded to bfloat16.
void Sgd::go_down(const Rows& rows, const at::Tensor& direction) {
  constexpr std::int64_t kPiece = 1 << 13, kGrain = 1 << 16;
  for (std::int64_t c = 0; c < rows.count; ++c) {
    auto* values = rows.values[c].data_ptr<float>();
    const auto *before = rows.before[c].data_ptr<float>(), *gradients = direction[c].data_ptr<float>();
    auto* shadow = rows.shadow.defined() ? static_cast<std::byte*>(rows.shadow[c].data_ptr()) : nullptr;
    at::parallel_for(0, rows.values.size(1), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kPiece) {
        const std::int64_t count = std::min(kPiece, end - i);
        sgd_step(values + i, before + i, gradients + i, rows.rates[static_cast<std::size_t>(c)], count);
        if (shadow != nullptr) to_bfloat16({values + i, static_cast<std::size_t>(count)}, shadow + 2 * i);
      }
    });
  }
}

namespace {

const Registration<Optimizers, SgdConfig> kRegisteredSgd{
    "sgd", "gradient descent, with momentum if asked for",
    [](const SgdConfig& config, const OptimizerInput& input) { return std::make_unique<Sgd>(config, input); }};

}  // namespace
}  // namespace chorus::inline optim

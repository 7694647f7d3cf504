#include "application/optim/adamw.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cmath>

#include "application/optim/flat_kernels.h"

namespace chorus {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

}  // namespace

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
    size.push_back(rows.rates[static_cast<std::size_t>(c)] / (1 - std::pow(config_.beta1, step)));
    root.push_back(1 / std::sqrt(1 - std::pow(config_.beta2, step)));
  }
  if (rows.values.device().is_cpu()) {
    const at::Tensor mask = decay_mask();
    for (std::int64_t c = 0; c < rows.count; ++c) {
      const auto k = static_cast<std::size_t>(c);
      const AdamWStep step{config_.beta1, config_.beta2, config_.epsilon,
                           size[k],       root[k],       rows.rates[k] * input().weight_decay};
      const AdamWRow row{rows.values[c].data_ptr<float>(), rows.gradients[c].data_ptr<float>(),
                         first[c].data_ptr<float>(), second[c].data_ptr<float>(),
                         mask.defined() ? mask.data_ptr<float>() : nullptr};
      at::parallel_for(0, rows.values.size(1), kGrain,
                       [&](std::int64_t begin, std::int64_t end) { adamw_step(row, begin, end, step); });
    }
    return;
  }
  for (double& number : size) number = -number;
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

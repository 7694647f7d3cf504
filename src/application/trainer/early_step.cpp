#include "application/trainer/early_step.h"

#include <algorithm>

namespace chorus::inline trainer {

EarlyStep::EarlyStep(const GpuStreams& streams, Optimizer& optimizer, const Params& params, const Input& input)
    : streams_(streams), optimizer_(optimizer), params_(params), last_(input.last), once_(input.once) {
  optimizer.begin_step(input.rates);
}

GradientTaker EarlyStep::taker() {
  return [this](std::int64_t offset, const at::Tensor& gradient) {
    const std::int64_t count = gradient.numel() / gradient.size(0);
    taken_.emplace_back(offset, offset + count);
    streams_.beside([&] { part(offset, count, gradient.view({gradient.size(0), count})); });
    streams_.lend(gradient);
  };
}

void EarlyStep::finish(std::int64_t used) {
  std::sort(taken_.begin(), taken_.end());
  taken_.emplace_back(used, used);
  std::int64_t begin = 0;
  for (const auto& [from, to] : taken_) {
    if (from > begin) part(begin, from - begin, params_.grads().narrow(1, begin, from - begin));
    begin = to;
  }
}

void EarlyStep::part(std::int64_t first, std::int64_t count, const at::Tensor& gradients) {
  const at::Tensor& shadow = params_.shadow().values();
  optimizer_.step_part(
      first, params_.values().narrow(1, first, count), gradients,
      {.shadow = shadow.defined() ? shadow.narrow(1, first, count) : shadow, .last = last_, .once = once_});
}

}  // namespace chorus::inline trainer

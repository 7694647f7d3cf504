#include "application/trainer/optimizer.h"

#include <cmath>

namespace chorus {

void AdamW::step(const at::Tensor& values, const at::Tensor& gradients) {
  const at::NoGradGuard no_grad;
  if (!first_.defined()) {
    first_ = torch::zeros_like(values);
    second_ = torch::zeros_like(values);
  }
  ++steps_;
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  first_.mul_(options_.beta1).add_(gradients, 1 - options_.beta1);
  second_.mul_(options_.beta2).addcmul_(gradients, gradients, 1 - options_.beta2);
  values.mul_(1 - options_.learning_rate * options_.weight_decay);
  const at::Tensor scale = second_.sqrt().div_(std::sqrt(correction2)).add_(options_.epsilon);
  values.addcdiv_(first_, scale, -options_.learning_rate / correction1);
}

}  // namespace chorus

#include "application/optim/optimizer.h"

#include <torch/types.h>

#include <algorithm>

#include "core/error.h"

namespace chorus {
namespace {

constexpr const char* kSteps = "steps";

at::Tensor matrices_mask(const Layout& layout, at::Device device) {
  at::Tensor mask = torch::zeros({layout.trainable_size()}, at::kFloat);
  for (const ParamSpec& spec : layout.specs()) {
    if (spec.trainable && spec.shape.size() > 1) mask.narrow(0, spec.offset, spec.count).fill_(1);
  }
  return mask.to(device);
}

}  // namespace

Optimizer::Optimizer(const OptimizerInput& input)
    : input_(input), steps_(static_cast<std::size_t>(input.clients), 0.0) {
  if (input.weight_decay > 0 && input.decay_matrices_only) decay_ = matrices_mask(*input.layout, input.device);
}

void Optimizer::step(const at::Tensor& values, const at::Tensor& gradients, std::span<const double> rates) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(rates.size());
  check(values.size(0) == count && gradients.size(0) == count && count <= input_.clients, "one rate a client");
  for (std::int64_t c = 0; c < count; ++c) steps_[static_cast<std::size_t>(c)] += 1;
  update({values, gradients, rates, count});
}

std::map<std::string, at::Tensor> Optimizer::state(std::int64_t client) const {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, rows] : buffers_) result[name] = rows[client].clone();
  result[kSteps] = torch::full({1}, steps_.at(static_cast<std::size_t>(client)), at::kDouble);
  return result;
}

void Optimizer::restore(std::int64_t client, const std::map<std::string, at::Tensor>& state) {
  for (auto& [name, rows] : buffers_) {
    const auto found = state.find(name);
    if (found == state.end()) {
      rows[client].zero_();
    } else {
      check(found->second.numel() == rows.size(1), "the state of another optimiser");
      rows[client].copy_(found->second);
    }
  }
  const auto found = state.find(kSteps);
  steps_.at(static_cast<std::size_t>(client)) = found == state.end() ? 0 : found->second.item<double>();
}

at::Tensor& Optimizer::buffer(const std::string& name, std::int64_t size) {
  at::Tensor& rows = buffers_[name];
  if (!rows.defined()) rows = torch::zeros({input_.clients, size}, at::TensorOptions(input_.device).dtype(at::kFloat));
  return rows;
}

at::Tensor Optimizer::column(std::span<const double> numbers) const {
  const bool equal = std::all_of(numbers.begin(), numbers.end(), [&](double n) { return n == numbers[0]; });
  if (equal) return torch::scalar_tensor(numbers[0], at::kDouble);  // multiplies as a scalar, on any device
  at::Tensor result = torch::empty({static_cast<std::int64_t>(numbers.size()), 1}, at::kFloat);
  std::transform(numbers.begin(), numbers.end(), result.data_ptr<float>(),
                 [](double n) { return static_cast<float>(n); });
  return result.to(input_.device);
}

void Optimizer::decay_values(const Rows& rows) const {
  if (input_.weight_decay == 0) return;
  std::vector<double> rates(rows.rates.begin(), rows.rates.end());
  for (double& rate : rates) rate *= -input_.weight_decay;
  if (decay_.defined()) {
    rows.values.addcmul_(rows.values, decay_ * column(rates));
  } else {
    rows.values.add_(rows.values * column(rates));
  }
}

void Optimizer::decay_gradients(const Rows& rows) const {
  if (input_.weight_decay == 0) return;
  if (decay_.defined()) {
    rows.gradients.addcmul_(rows.values, decay_, input_.weight_decay);
  } else {
    rows.gradients.add_(rows.values, input_.weight_decay);
  }
}

at::Tensor clip_rows(const at::Tensor& gradients, double norm) {
  const at::NoGradGuard no_grad;
  at::Tensor norms = gradients.norm(2, {1}, true);
  // As torch's clip_grad_norm_, the epsilon included.
  gradients.mul_((norm / (norms + 1e-6)).clamp_max_(1.0));
  return norms.squeeze(1);
}

}  // namespace chorus

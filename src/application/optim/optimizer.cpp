#include "application/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "application/optim/flat_kernels.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline optim {
namespace {

constexpr const char* kSteps = "steps";

at::Tensor matrices_mask(const Layout& layout, at::Device device) {
  at::Tensor mask = torch::zeros({layout.trainable_size()}, at::kFloat);
  for (const ParamSpec& spec : layout.specs()) {
    if (spec.trainable && spec.shape.size() > 1) mask.narrow(0, spec.offset, spec.count).fill_(1);
  }
  return sent_to(device, mask);
}

// [A, 1]. Sums over pieces of fixed size, so that they do not depend on the number of threads.
at::Tensor row_norms(const at::Tensor& rows) {
  constexpr std::int64_t kPiece = 1 << 15;
  const std::int64_t pieces = (rows.size(1) + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<std::size_t>(rows.size(0) * pieces));
  at::parallel_for(0, rows.size(0) * pieces, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % pieces * kPiece;
      const float* data = rows.data_ptr<float>() + i / pieces * rows.stride(0) + first;
      sums[static_cast<std::size_t>(i)] = sum_of_squares(data, std::min(kPiece, rows.size(1) - first));
    }
  });
  at::Tensor norms = torch::empty({rows.size(0), 1}, at::kFloat);
  for (std::int64_t c = 0; c < rows.size(0); ++c) {
    const auto begin = sums.begin() + c * pieces;
    norms.data_ptr<float>()[c] = static_cast<float>(std::sqrt(std::accumulate(begin, begin + pieces, 0.0)));
  }
  return norms;
}

}  // namespace

Optimizer::Optimizer(const OptimizerInput& input)
    : input_(input), steps_(static_cast<std::size_t>(input.clients), 0.0) {
  if (input.weight_decay > 0 && input.decay_matrices_only) decay_ = matrices_mask(*input.layout, input.device);
}

void Optimizer::step(const at::Tensor& values, const at::Tensor& gradients, std::span<const double> rates,
                     const at::Tensor& scale, const StepMemory& memory) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(rates.size());
  check(values.size(0) == count && gradients.size(0) == count, "one rate per client");
  begin_step(rates);
  if (fused(values)) {
    update({values, gradients, rates_, count, scale, memory.before.defined() ? memory.before : values, memory.shadow, 0,
            memory.last, memory.once});
    return;
  }
  if (scale.defined()) gradients.mul_(scale);
  if (memory.before.defined()) values.copy_(memory.before);
  update({values, gradients, rates_, count, {}, values, {}});
  if (memory.shadow.defined()) put_as_bfloat16(memory.shadow, values);
}

void Optimizer::begin_step(std::span<const double> rates) {
  check(rates.size() <= steps_.size(), "one rate per client");
  for (std::size_t c = 0; c < rates.size(); ++c) steps_[c] += 1;
  rates_.assign(rates.begin(), rates.end());
  begin();
}

void Optimizer::step_part(std::int64_t first, const at::Tensor& values, const at::Tensor& gradients,
                          const StepMemory& memory) {
  const auto count = static_cast<std::int64_t>(rates_.size());
  check(in_parts(values) && values.size(0) == count && gradients.size(0) == count, "a step that can be made in parts");
  const at::NoGradGuard no_grad;
  update({values,
          gradients,
          rates_,
          count,
          {},
          memory.before.defined() ? memory.before : values,
          memory.shadow,
          first,
          memory.last,
          memory.once});
}

std::map<std::string, at::Tensor> Optimizer::state(std::int64_t client) {
  complete();
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, rows] : buffers_) result[name] = rows[client].clone();
  result[kSteps] = torch::full({1}, steps_.at(static_cast<std::size_t>(client)), at::kDouble);
  return result;
}

void Optimizer::restore(std::int64_t client, const std::map<std::string, at::Tensor>& state) {
  complete();
  for (auto& [name, rows] : buffers_) {
    const auto found = state.find(name);
    if (found == state.end()) {
      rows[client].zero_();
    } else {
      check(found->second.numel() == rows.size(1), "the state of another optimizer");
      rows[client].copy_(found->second);
    }
  }
  const auto found = state.find(kSteps);
  steps_.at(static_cast<std::size_t>(client)) = found == state.end() ? 0 : found->second.item<double>();
}

void Optimizer::forget() {
  clear();
  std::fill(steps_.begin(), steps_.end(), 0.0);
}

void Optimizer::clear() {
  complete();
  for (auto& [name, rows] : buffers_) rows.zero_();
}

void Optimizer::retain(std::span<const std::size_t> clients) {
  for (std::size_t to = 0; to < clients.size(); ++to) {
    const std::size_t from = clients[to];
    check(from >= to && from < steps_.size(), "clients in ascending order");
    if (from == to) continue;
    steps_[to] = steps_[from];
    for (auto& [name, rows] : buffers_) {
      rows[static_cast<std::int64_t>(to)].copy_(rows[static_cast<std::int64_t>(from)]);
    }
  }
}

at::Tensor Optimizer::buffer(const std::string& name, std::int64_t size) { return empty_buffer(name, size).zero_(); }

at::Tensor Optimizer::empty_buffer(const std::string& name, std::int64_t size) {
  const std::int64_t stride = (size + 15) / 16 * 16;  // rows start at multiples of 64 bytes, as in Params
  const auto options = at::TensorOptions(input_.device).dtype(at::kFloat);
  return buffers_[name] = torch::empty({input_.clients, stride}, options).narrow(1, 0, size);
}

at::Tensor Optimizer::column(std::span<const double> numbers) const {
  const bool equal = std::all_of(numbers.begin(), numbers.end(), [&](double n) { return n == numbers[0]; });
  if (equal) return torch::scalar_tensor(numbers[0], at::kDouble);  // multiplies as a scalar on any device
  at::Tensor result = torch::empty({static_cast<std::int64_t>(numbers.size()), 1}, at::kFloat);
  std::transform(numbers.begin(), numbers.end(), result.data_ptr<float>(),
                 [](double n) { return static_cast<float>(n); });
  return sent_to(input_.device, result);
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
    rows.gradients.addcmul_(rows.before, decay_, input_.weight_decay);
  } else {
    rows.gradients.add_(rows.before, input_.weight_decay);
  }
}

at::Tensor clip_scales(const at::Tensor& gradients, double norm) {
  const at::NoGradGuard no_grad;
  at::Tensor norms = gradients.is_cpu() ? row_norms(gradients) : gradients.norm(2, {1}, true);
  // Like torch's clip_grad_norm_, including the epsilon.
  return (norm / (norms + 1e-6)).clamp_max_(1.0);
}

}  // namespace chorus::inline optim

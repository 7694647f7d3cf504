#include "application/trainer/example_sum.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/ports/example_guard.h"

namespace chorus::inline trainer {
namespace {

// A little less than allowed: rounding errors of norms and factors must not exceed the bound.
constexpr double kMargin = 1 - 1e-6;
constexpr std::int64_t kColumns = 1 << 20;

}  // namespace

ExampleSum::ExampleSum(std::int64_t size, at::Device device, const Bound& bound)
    : sum_(torch::zeros({size}, at::TensorOptions(at::kLong).device(device))), bound_(bound) {
  check(bound.clip > 0 && std::isfinite(bound.clip), "a clipping norm is positive");
  check(bound.noise >= 1e-3 && bound.noise <= 1e5, "noise is out of range");
  units_ = ExampleGuard::kUnits / bound.noise;
}

void ExampleSum::add(const at::Tensor& gradients) {
  check(gradients.dim() == 2 && gradients.size(1) == sum_.size(0), "one gradient per example");
  const at::NoGradGuard no_grad;
  if (gradients.is_cpu() && gradients.stride(1) == 1) {
    add_here(gradients);
  } else {
    add_there(gradients);
  }
}

void ExampleSum::add_here(const at::Tensor& gradients) {
  const std::int64_t rows = gradients.size(0), columns = gradients.size(1);
  std::vector<double> factors(static_cast<std::size_t>(rows));
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* values = gradients.data_ptr<float>() + row * gradients.stride(0);
      double squares = 0;
      for (std::int64_t i = 0; i < columns;) {
        double part = 0;
        for (const std::int64_t stop = std::min(columns, i + 4096); i < stop; ++i) {
          part += static_cast<double>(values[i]) * values[i];
        }
        squares += part;
      }
      const double norm = std::sqrt(squares);
      factors[static_cast<std::size_t>(row)] = std::isfinite(norm) ? kMargin * units_ / std::max(norm, bound_.clip) : 0;
    }
  });
  auto* sum = sum_.data_ptr<std::int64_t>();
  at::parallel_for(0, columns, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const double factor = factors[static_cast<std::size_t>(row)];
      if (factor <= 0) continue;
      const float* values = gradients.data_ptr<float>() + row * gradients.stride(0);
      for (std::int64_t i = begin; i < end; ++i) sum[i] += static_cast<std::int64_t>(values[i] * factor);
    }
  });
}

void ExampleSum::add_there(const at::Tensor& gradients) {
  const std::int64_t rows = gradients.size(0), columns = gradients.size(1);
  const auto options = gradients.options().dtype(at::kDouble);
  at::Tensor squares = torch::zeros({rows}, options);
  for (std::int64_t begin = 0; begin < columns; begin += kColumns) {
    const at::Tensor part = gradients.narrow(1, begin, std::min(kColumns, columns - begin)).to(at::kDouble);
    squares.add_(part.square().sum(1));
  }
  const at::Tensor finite = at::isfinite(squares);
  // 0 times infinity is not 0.
  gradients.masked_fill_(finite.logical_not().unsqueeze(1), 0);
  const at::Tensor norms = torch::where(finite, squares, torch::zeros_like(squares)).sqrt().clamp_min(bound_.clip);
  const at::Tensor factors = (kMargin * units_ / norms).to(at::kFloat).unsqueeze(1);
  // Sums of integers below 2^31 need no wider type.
  const bool narrow = static_cast<double>(rows) * units_ < 0x1.0p31;
  for (std::int64_t begin = 0; begin < columns; begin += kColumns) {
    const std::int64_t count = std::min(kColumns, columns - begin);
    const at::Tensor whole = gradients.narrow(1, begin, count).mul_(factors).trunc_();
    const auto type = narrow ? at::kInt : at::kLong;
    sum_.narrow(0, begin, count).add_(whole.to(type).sum(at::IntArrayRef{0}, false, type));
  }
}

at::Tensor ExampleSum::release(const at::Tensor& noise) {
  const at::NoGradGuard no_grad;
  check(noise.scalar_type() == at::kLong && noise.sizes() == sum_.sizes(), "noise is as long as the sum");
  // From pinned memory without waiting.
  const at::Tensor there = noise.to(sum_.device(), /*non_blocking=*/true);
  const at::Tensor result = sum_.add(there).to(at::kDouble).mul_(bound_.clip / units_).to(at::kFloat);
  sum_.zero_();
  return result;
}

}  // namespace chorus::inline trainer

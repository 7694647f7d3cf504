#include "algorithm/central_dp/clipped_sum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "algorithm/noise/integer_noise.h"
#include "core/base/error.h"

namespace chorus::inline central_dp {
namespace {

constexpr std::uint64_t kDeviation = std::uint64_t{1} << 24;

}  // namespace

ClippedSum::ClippedSum(std::int64_t size, at::Device device, Bound bound)
    : sum_(at::zeros({size}, at::TensorOptions(at::kLong).device(device))), bound_(bound) {
  check(bound.clip > 0 && std::isfinite(bound.clip), "a clipping norm is positive");
  check(bound.noise >= 1e-3 && bound.noise <= 1e5, "noise is out of range");
  units_ = static_cast<double>(kDeviation) / bound.noise;
}

double ClippedSum::add(const at::Tensor& x) {
  const double norm = x.norm(2, at::kDouble).item<double>();
  // A little less than allowed: the rounding errors of this computation must not exceed the bound.
  const double factor = (1 - 1e-9) * units_ / std::max(norm, bound_.clip);
  const at::Tensor units = x.to(at::kDouble).mul_(factor).trunc_();
  check(units.norm().item<double>() <= units_, "a clipped update is within its bound");
  sum_.add_(units.to(at::kLong));
  return norm;
}

at::Tensor ClippedSum::release() {
  check(!released_, "a sum is released once");
  released_ = true;
  at::Tensor noise = at::empty({sum_.size(0)}, at::kLong);
  auto* values = noise.data_ptr<std::int64_t>();
  at::parallel_for(0, noise.numel(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    SecretStream stream;  // a key of its own
    for (std::int64_t i = begin; i < end; ++i) values[i] = discrete_gaussian(stream, kDeviation);
  });
  return sum_.add_(noise.to(sum_.device())).to(at::kDouble).mul_(bound_.clip / units_).to(at::kFloat);
}

}  // namespace chorus::inline central_dp

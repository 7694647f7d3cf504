#include "algorithm/central_dp/clipped_sum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "algorithm/noise/wide_gaussian.h"
#include "core/base/error.h"

namespace chorus::inline central_dp {
ClippedSum::ClippedSum(std::int64_t size, at::Device device, Bound bound)
    : sum_(at::zeros({size}, at::TensorOptions(at::kLong).device(device))), bound_(bound) {
  check(bound.clip > 0 && std::isfinite(bound.clip), "a clipping norm is positive");
  check(bound.noise >= 1e-3 && bound.noise <= 1e5, "noise is out of range");
  units_ = units_of(bound.noise);
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

at::Tensor ClippedSum::draw(std::int64_t size) {
  at::Tensor noise = at::empty({size}, at::kLong);
  auto* values = noise.data_ptr<std::int64_t>();
  at::parallel_for(0, size, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    SecretStream stream;  // a key of its own
    wide_gaussian(stream, std::span(values + begin, static_cast<std::size_t>(end - begin)));
  });
  return noise;
}

double ClippedSum::units_of(double noise) { return static_cast<double>(kWideDeviation) / noise; }

at::Tensor ClippedSum::take() {
  check(!released_, "a sum is released once");
  released_ = true;
  return sum_;
}

at::Tensor ClippedSum::release() {
  const at::Tensor sum = take();
  return sum.add(draw(sum.size(0)).to(sum.device())).to(at::kDouble).mul_(bound_.clip / units_).to(at::kFloat);
}

}  // namespace chorus::inline central_dp

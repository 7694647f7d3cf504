#include "application/trainer/distance_correlation.h"

#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

at::Tensor centred_distances(const at::Tensor& x) {
  const at::Tensor squares = x.square().sum(1);
  const at::Tensor squared = squares.unsqueeze(0) + squares.unsqueeze(1) - 2 * torch::mm(x, x.t());
  const at::Tensor distances = (squared.clamp_min(0) + 1e-12).sqrt();  // its derivative at 0 is finite
  return distances - distances.mean(0, true) - distances.mean(1, true) + distances.mean();
}

}  // namespace

at::Tensor distance_correlation(const at::Tensor& x, const at::Tensor& z) {
  check(x.dim() == 2 && z.dim() == 2 && x.size(0) == z.size(0) && x.size(0) > 0, "two samples of equal size");
  const at::Tensor a = centred_distances(x), b = centred_distances(z);
  return (a * b).mean() / ((a * a).mean() * (b * b).mean() + 1e-20).sqrt();
}

}  // namespace chorus::inline trainer

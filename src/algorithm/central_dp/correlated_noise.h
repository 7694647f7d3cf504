#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm/privacy/participation.h"

namespace chorus::inline central_dp {

/// How the noise of one round cancels part of the noise of others, so that sums over rounds (the model) have less noise
/// than with independent noise of the same privacy.
enum class MatrixKind {
  kTree,    ///< binary tree aggregation (Kairouz et al. 2021)
  kBanded,  ///< the first bands of the square root of the prefix sum (Choquette-Choo et al. 2023)
  kBlt,     ///< buffered linear Toeplitz: all bands by a few exponentials (Dvijotham et al. 2024; McMahan et al. 2024)
};

struct MatrixConfig {
  MatrixKind kind = MatrixKind::kBlt;
  std::int64_t bands = 8;    ///< of kBanded
  std::int64_t buffers = 6;  ///< of kBlt
};

/// The exponentials of a BLT matrix with coefficients 1, sum w, sum w d, sum w d^2, ... that are close to the square
/// root of the prefix sum, 1, 1/2, 3/8, ... up to `steps`. From r_k = (1/pi) int x^(k-1/2) (1-x)^(-1/2) dx by the
/// trapezoidal rule in ln(x / (1 - x)), so all weights are positive and the coefficients fall.
struct BltParameters {
  std::vector<double> weights, decays;
};
BltParameters blt_parameters(std::int64_t buffers, std::int64_t steps);

/// The L2 sensitivity of everything that is blurred, in units of one round's: a user takes part as stated.
double matrix_sensitivity(const MatrixConfig& config, const Participation& participation);

/// Releases the sums x_1, x_2, ... (integers, on a grid) of a run so that all of them together are one Gaussian
/// mechanism:
///
///     y = C x + z,   released: C^-1 y
///
/// with independent integer noise z. Row t of C x is rounded towards zero, which moves a neighbour by one unit per
/// element at most. The released values are post-processing of y. Past sums stay in memory and are never saved.
///
///     CorrelatedSums sums(config, rounds);
///     at::Tensor first = sums.release(sum, noise);      // noise: int64 [P], standard deviation as accounted
class CorrelatedSums {
 public:
  CorrelatedSums(const MatrixConfig& config, std::int64_t steps);
  ~CorrelatedSums();
  /// The next x, int64 [P], blurred: double [P] in units of the grid. Each call needs fresh noise. With kTree the noise
  /// of inner nodes is drawn by `draw`.
  using Draw = at::Tensor (*)(std::int64_t size);
  at::Tensor release(const at::Tensor& sum, Draw draw);

 private:
  class Method;
  class Tree;
  class Banded;
  class Blt;
  std::unique_ptr<Method> method_;
  std::int64_t steps_, done_ = 0;
};

}  // namespace chorus::inline central_dp

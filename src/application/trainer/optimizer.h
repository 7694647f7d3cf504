#pragma once

#include <torch/types.h>

#include <cstdint>

namespace chorus {

/// AdamW (Loshchilov and Hutter, 2019) on the flat buffers of a cohort, as PyTorch's:
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w -= lr * weight_decay * w,  w -= lr * m' / (sqrt(v') + eps)   with bias-corrected m', v'.
/// One step is a handful of operations on [C, P], whatever the number of parameters.
///
///     AdamW optimizer({.learning_rate = 5e-5});
///     optimizer.step(params.values(), params.grads());
class AdamW {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;  ///< on every parameter
  };

  explicit AdamW(const Options& options) : options_(options) {}

  /// values and gradients [C, P]; the state is made at the first call.
  void step(const at::Tensor& values, const at::Tensor& gradients);

 private:
  Options options_;
  at::Tensor first_, second_;  // [C, P] moments
  std::int64_t steps_ = 0;
};

}  // namespace chorus

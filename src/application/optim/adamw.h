#pragma once

#include "application/optim/optimizer.h"

namespace chorus::inline optim {

struct AdamWConfig {
  double beta1 = 0.9;     ///< decay of the first moment, below 1
  double beta2 = 0.999;   ///< decay of the second moment, below 1
  double epsilon = 1e-8;  ///< added to the root of the second moment

  void describe(ConfigVisitor& visitor);
};

/// AdamW (Loshchilov and Hutter, 2019), as PyTorch's:
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w -= lr * weight_decay * w,  w -= lr * m' / (sqrt(v') + eps)   with bias-corrected m', v'.
class AdamW : public Optimizer {
 public:
  AdamW(const AdamWConfig& config, const OptimizerInput& input);
  /// On a GPU only.
  bool in_parts(const at::Tensor& values) const override;

 private:
  void begin() override;
  void update(const Rows& rows) override;
  bool fused(const at::Tensor& values) const override;
  void complete() override;
  void clear() override { known_ = reached_ = 0; }

  struct Step {
    at::Tensor first, second;        // moments of these rows
    std::int64_t known = 0;          // number of a client's elements that have moments
    std::vector<double> size, root;  // per client: lr / (1 - b1^t) and 1 / sqrt(1 - b2^t)
  };
  void update_cpu(const Rows& rows, const Step& step);
  void update_gpu(const Rows& rows, const Step& step);
  void update_reference(const Rows& rows, const Step& step);

  AdamWConfig config_;
  at::Tensor first_, second_;  // [C, P] moments
  // Number of a client's elements with moments: before this step, and after it. Other moments are 0.
  std::int64_t known_ = 0, reached_ = 0;
};

}  // namespace chorus::inline optim

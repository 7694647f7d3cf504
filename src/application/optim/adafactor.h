#pragma once

#include "application/optim/optimizer.h"

namespace chorus::inline optim {

struct AdafactorConfig {
  double decay_rate = -0.8;      ///< exponent of the second moment's decay, 1 - step^decay_rate
  double clip_threshold = 1.0;   ///< the root mean square an update may have
  double epsilon1 = 1e-30;       ///< added to squared gradients
  double epsilon2 = 1e-3;        ///< the least scale of a parameter, with scale_parameter
  bool scale_parameter = false;  ///< the learning rate is in units of the parameter's root mean square

  void describe(ConfigVisitor& visitor);
};

/// Adafactor (Shazeer and Stern, 2018) without first moment, as Hugging Face's with relative_step = false: the second
/// moment of a matrix is kept as one row and one column, so that the state of a model is about a thousandth of AdamW's.
/// Unlike the other methods it must know the shapes, and goes through the parameters one by one.
class Adafactor : public Optimizer {
 public:
  Adafactor(const AdafactorConfig& config, const OptimizerInput& input);
  bool elementwise() const override { return false; }

 private:
  void update(const Rows& rows) override;

  struct Place {
    std::int64_t row, column;  // where the parameter's statistics begin; column -1: not factored, `row` has them all
  };
  AdafactorConfig config_;
  std::vector<Place> places_;  // one a parameter of the layout
  at::Tensor statistics_;      // [C, S]
};

}  // namespace chorus::inline optim

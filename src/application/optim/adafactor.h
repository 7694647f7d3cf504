#pragma once

#include "application/optim/optimizer.h"

namespace chorus::inline optim {

struct AdafactorConfig {
  double decay_rate = -0.8;      ///< exponent of the second moment's decay, 1 - step^decay_rate
  double clip_threshold = 1.0;   ///< maximum root mean square of an update
  double epsilon1 = 1e-30;       ///< added to squared gradients
  double epsilon2 = 1e-3;        ///< minimum scale of a parameter, with scale_parameter
  bool scale_parameter = false;  ///< the learning rate is in units of the parameter's root mean square

  void describe(ConfigVisitor& visitor);
};

/// Adafactor (Shazeer and Stern, 2018) without first moment, as Hugging Face's with relative_step = false. The second
/// moment of a matrix is stored as one row and one column, so that a model's state is about a thousandth of AdamW's.
/// Unlike the other methods it needs the shapes and loops over the parameters.
class Adafactor : public Optimizer {
 public:
  Adafactor(const AdafactorConfig& config, const OptimizerInput& input);
  bool elementwise() const override { return false; }

 private:
  void update(const Rows& rows) override;

  struct Place {
    std::int64_t row, column;  // index of the parameter's statistics; column -1: not factored, all in `row`
  };
  AdafactorConfig config_;
  std::vector<Place> places_;  // one per parameter of the layout
  at::Tensor statistics_;      // [C, S]
};

}  // namespace chorus::inline optim

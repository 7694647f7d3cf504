#pragma once

#include "algorithm/compression/uniform.h"

namespace chorus::inline compression {

struct EcqConfig {
  Bits bits = Bits::k8;
  std::int64_t bucket = 512;
  double compensation = 1;  ///< alpha of the paper
  double decay = 1;         ///< beta of the paper

  void describe(ConfigVisitor& visitor);
};

/// Error-compensated quantization (ECQ-SGD, Wu et al. 2018), which Cai et al. 2023 cite for their baselines FTQ and
/// LFQ: the stochastic uniform quantizer, with every sender adding its accumulated error e:
///     sent = Q(x + alpha e),   e' = beta e + x - sent
/// alpha = beta = 1 is ordinary error feedback; smaller values forget old errors. INT8 and INT4 of Cai et al. 2023 are
/// bits: 8 and bits: 4. Bytes: as for the filter uniform.
class EcqFilter : public UniformFilter {
 public:
  explicit EcqFilter(const EcqConfig& config)
      : UniformFilter({config.bits, config.bucket, UniformFilterConfig::Scale::kMaxAbs, true}),
        feedback_{config.compensation, config.decay} {}

  std::optional<ErrorFeedback> feedback() const override { return feedback_; }

 private:
  ErrorFeedback feedback_;
};

}  // namespace chorus::inline compression

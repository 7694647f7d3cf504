#pragma once

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// Language modelling: loss = (summed negative log-likelihood, in nats) / tokens, perplexity = exp(loss). Dupuy et al.
/// 2022 pool a group's utterances this way, so a long text weighs more than a short one. Both are NaN without tokens;
/// perplexity is infinite when exp overflows.
///
///     metric.add(summed_loss, predicted_tokens);
class Perplexity : public TallyMetric {
 public:
  explicit Perplexity(Keep keep = Keep::kTotals) : TallyMetric(keep) {}

  /// One text, or any other piece that is resampled as a whole.
  void add(double summed_loss, double tokens);

  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<Perplexity>(keep); }
  std::string signature() const override { return "perplexity"; }

 protected:
  Scores finish(const Tally& tally) const override;
};

/// The change of `value` against `baseline` in percent; for perplexities the RCP of Dupuy et al. 2022.
double relative_change(double value, double baseline);

}  // namespace chorus::inline metrics

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "algorithm/privacy/budget_ledger.h"
#include "core/ports/aggregation.h"

namespace chorus::inline central_dp {

struct PrivateMeanConfig {
  double noise = 0;        ///< standard deviation of the noise / clip; 0: calibrated to `epsilon`
  double epsilon = 0;      ///< budget; the run ends before it is exceeded. 0: no budget
  double delta = 1e-5;     ///< should be well below 1 / clients
  double clip = 1;         ///< L2 norm to which updates are clipped; the initial one with `quantile`
  double quantile = 0;     ///< share of updates that stay unclipped; `clip` adapts to it. 0: `clip` is fixed
  double clip_rate = 0.2;  ///< learning rate of `clip`
  double count_noise =
      0;  ///< deviation of the noise of the count it adapts by; 0: clients_per_round / 20, at least `noise`
  std::string copy = "auto";  ///< folder for the copy of the ledger; auto: the user's state folder; none: no copy

  void describe(ConfigVisitor& visitor);
};

/// User-level differential privacy with a trusted server (McMahan et al. 2018): the updates of a Poisson sample of
/// clients are clipped, summed, perturbed with noise and divided by the expected size of the sample,
///
///     mean = (sum_k min(1, C / |x_k|) x_k + N(0, (z C)^2)) / (q n)
///
/// so one client changes the sum by at most C, whatever it sends and whether or not it fails. The denominator and the
/// weights do not depend on data. A round without clients still adds noise and is charged.
///
/// With `quantile` the clipping norm follows a quantile of the updates' norms (Andrew et al. 2021): each client also
/// sends whether its norm is below C. That count is released with noise s_b, and the updates get a little more noise,
/// so that both together are one Gaussian mechanism with noise z: z^-2 = z_update^-2 + (2 s_b)^-2.
///
/// Every round is charged to the ledger in the run's folder before its noise is drawn.
///
///     aggregation: {name: private_mean, epsilon: 8, delta: 1e-5, clip: 0.5}
///     weighting: equal
///     selection: poisson
class PrivateMean : public Aggregation {
 public:
  explicit PrivateMean(const PrivateMeanConfig& config) : config_(config), clip_(config.clip) {}

  void prepare(const AggregationSetting& setting) override;
  bool answers_for_nobody() const override { return true; }
  bool exhausted() override;
  Aggregated aggregate(AggregationInput input) override;
  std::optional<PrivacyReport> privacy() const override;
  std::string ledger() const override { return ledger_ ? ledger_->mark() : ""; }
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  double epsilon_of(bool one_more) const;
  double next_epsilon();
  double update_noise() const;
  void adapt(double below, double expected);

  PrivateMeanConfig config_;
  double clip_;
  Mechanism round_{};    // the mechanism that each round is charged as
  double expected_ = 0;  // clients per round
  double count_noise_ = 0;
  std::unique_ptr<BudgetLedger> ledger_;
  std::optional<std::pair<std::size_t, double>> next_;  // epsilon after the next charge, at this number of charges
};

}  // namespace chorus::inline central_dp

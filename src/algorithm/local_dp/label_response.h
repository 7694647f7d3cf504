#pragma once

#include "algorithm/local_dp/randomized_response.h"
#include "algorithm/privacy/budget_ledger.h"
#include "core/ports/label_guard.h"

namespace chorus::inline local_dp {

/// Labels by k-ary randomized response (randomized_response.h; for training: Ghazi et al. 2021). `labels.ledger` in the
/// folder has one charge per client for every guard that was made: answers are never saved, so a run that goes on after
/// a stop draws them again, and epsilon adds up.
///
///     LabelResponse guard({.epsilon = 2, .labels = 4, .folder = run, .clients = {0, 1, 2}});
///     const std::int32_t label = guard.answer(3);
class LabelResponse : public LabelGuard {
 public:
  /// ConfigError for an epsilon that is not positive, or fewer than two labels.
  explicit LabelResponse(const LabelGuardInput& input);

  std::int32_t answer(std::int32_t own) override;
  std::string mark() const override { return ledger_.mark(); }
  PrivacyReport report() const override;

 private:
  RandomizedResponse response_;
  SecretStream stream_;
  BudgetLedger ledger_;
};

}  // namespace chorus::inline local_dp

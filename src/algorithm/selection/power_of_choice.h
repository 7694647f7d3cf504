#pragma once

#include "algorithm/selection/selector.h"

namespace chorus {

struct PowerOfChoiceConfig {
  std::int64_t candidates = 0;  ///< d, who are asked for their loss; 0: twice the clients a round

  void describe(ConfigVisitor& v);
};

/// Power-of-choice (Cho, Wang and Joshi 2020, section 3; paper 002's reference 12): draw d candidates without
/// replacement with probability proportional to n_m, ask them for the loss of the current model, keep the `count` with
/// the highest. d = count is selection proportional to size; d = all is the greedy one. When fewer than d can be
/// reached, all are candidates. Equal losses: the one drawn first; a loss that is not a number counts as the lowest.
/// Registered as "power_of_choice".
class PowerOfChoiceSelector : public Selector {
 public:
  explicit PowerOfChoiceSelector(PowerOfChoiceConfig config) : config_(config) {}
  /// ConfigError when the context has no losses, or d is less than the count.
  std::vector<ClientId> select(const SelectionContext& context) const override;

 private:
  PowerOfChoiceConfig config_;
};

}  // namespace chorus

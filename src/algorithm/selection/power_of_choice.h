#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

struct PowerOfChoiceConfig {
  std::int64_t candidates = 0;  ///< d, clients asked for their loss; 0: twice the clients per round

  void describe(ConfigVisitor& v);
};

/// Power-of-choice (Cho, Wang and Joshi 2020, section 3): draw d candidates without replacement with probability
/// proportional to n_m, ask them for the loss of the current model, keep the `count` highest. d = count is selection
/// proportional to size; d = all is greedy. When fewer than d are reachable, all are candidates. Ties go to the client
/// drawn first; a NaN loss ranks lowest. Registered as "power_of_choice".
class PowerOfChoiceSelector : public Selector {
 public:
  explicit PowerOfChoiceSelector(PowerOfChoiceConfig config) : config_(config) {}
  /// ConfigError when the context has no losses, or d is less than the count.
  std::vector<ClientId> select(const SelectionContext& context) const override;

 private:
  PowerOfChoiceConfig config_;
};

}  // namespace chorus::inline selection

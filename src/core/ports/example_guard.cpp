#include "core/ports/example_guard.h"

namespace chorus::inline ports {

void ExamplePrivacyConfig::describe(ConfigVisitor& v) {
  v.field("clip", clip, "L2 norm that the gradient of one example is clipped to").above(0).at_most(1e6);
  v.field("noise", noise, "standard deviation of the noise / clip; 0: as much as epsilon needs")
      .at_least(0)
      .at_most(1e4);
  v.field("epsilon", epsilon, "budget of every client: it trains no more before it is exceeded; 0: none")
      .at_least(0)
      .at_most(1e4);
  v.field("delta", delta, "probability that the promise fails; choose it well below 1 / examples of a client")
      .above(0)
      .below(1);
  v.field("rounds", rounds, "rounds a client takes part in, where the noise is computed from epsilon; 0: all")
      .at_least(0);
  v.field("together", together, "examples whose gradients are in memory together; 0: as many as fit").at_least(0);
  v.field("copy", copy,
          "folder for a copy of the ledger, which counts after a restore from a backup; auto: "
          "$XDG_STATE_HOME/chorus/budgets; none");
}

}  // namespace chorus::inline ports

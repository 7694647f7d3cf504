#pragma once

#include <array>
#include <cstdint>

#include "core/ports/variant.h"

namespace chorus::inline adafl {

/// How AdaFL's configuration grows (Cai et al. 2023, Algorithm 1; values as in the published code).
struct ConfiguratorRules {
  double interval = 90;        ///< emulated seconds of a trial at depth 0
  double expand = 4;           ///< a trial at depth D lasts interval * (expand * D + 1)
  int depth_step = 1;          ///< S_d
  int width_step = 8;          ///< S_w
  int most_depth = 12;         ///< number of layers of the network
  int most_width = 64;         ///< the width never grows beyond it
  bool skip_depth_one = true;  ///< a deep branch of depth 1 becomes 2, as in the published code
};

/// AdaFL's online configurator: three groups train side by side, one with the current configuration, one deeper, one
/// wider; the best one continues. Depth and width never shrink.
///
///     Configurator configurator(rules, {.depth = 1, .width = 8});
///     for (Branch branch : kBranches) train(configurator.variant(branch), configurator.trial_seconds());
///     configurator.adopt(configurator.winner({0.71, 0.74, 0.72}));
class Configurator {
 public:
  enum Branch { kShallow, kDeep, kWide };
  static constexpr std::array<Branch, 3> kBranches{kShallow, kDeep, kWide};

  Configurator(const ConfiguratorRules& rules, const Variant& start) : rules_(rules), now_(start) {}

  const Variant& now() const { return now_; }
  Variant variant(Branch branch) const;
  /// False when the deep or wide branch equals the current configuration.
  bool differs(Branch branch) const { return branch == kShallow || variant(branch) != now_; }

  double trial_seconds() const { return rules_.interval * (rules_.expand * now_.depth + 1); }
  /// Number of rounds of `round_seconds` in a trial.
  std::int64_t rounds(double round_seconds) const;

  /// The best score wins; ties go to the shallow branch, then the wide, then the deep one.
  static Branch winner(const std::array<double, 3>& scores);
  void adopt(Branch branch) { now_ = variant(branch); }

 private:
  ConfiguratorRules rules_;
  Variant now_;
};

}  // namespace chorus::inline adafl

#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

struct SeparatedConfig {
  std::int64_t separation = 10;  ///< a client takes part at most once in so many rounds in a row

  void describe(ConfigVisitor& visitor);
};

/// Limits how often a client takes part, for mechanisms without sampling (DP-FTRL): clients are dealt into `separation`
/// groups by the seed, and round r draws from group r mod separation, all of it equally likely. So two rounds of one
/// client are at least `separation` rounds apart, and in T rounds it takes part at most ceil(T / separation) times. The
/// group of a client does not depend on who else is there. A group may have fewer clients than asked for; then all of
/// it takes part.
///
///     selection: {name: separated, separation: 20}
class SeparatedSelector : public Selector {
 public:
  explicit SeparatedSelector(const SeparatedConfig& config) : config_(config) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;

  /// 0 to separation - 1.
  static std::uint64_t group_of(ClientId client, std::uint64_t seed, std::int64_t separation);

 private:
  SeparatedConfig config_;
};

}  // namespace chorus::inline selection

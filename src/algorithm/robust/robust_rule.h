#pragma once

#include <algorithm>
#include <string>

#include "algorithm/robust/nearest_mixing.h"
#include "algorithm/robust/row_math.h"
#include "core/ports/aggregation.h"

namespace chorus::inline robust {

/// The base of every robust rule: reads the updates of the cohort and passes the usable ones to `combine`, each
/// aggregated tensor separately. With fewer than least_updates() of them every client fails and the model is unchanged.
///
/// Every client counts once, whatever `weighting` says: the number of examples is a claim that an attacker can inflate.
/// A rule is deterministic: ties go to the client that comes first in the cohort.
///
/// With `mixing` the rule sees mixed updates (nearest_mixing.h).
///
/// All updates of a round are held at once: n x P elements, twice that with mixing.
class RobustRule : public Aggregation {
 public:
  static constexpr Traits kTraits{.shows_updates = true, .is_mean = false};

  explicit RobustRule(const MixingConfig& mixing) : mixing_(mixing) {}

  Aggregated aggregate(AggregationInput input) final;
  std::size_t least_updates() const final { return std::max(mixing_.least_updates(), least_rows()); }

 protected:
  /// Fewest rows that the rule itself can combine.
  virtual std::size_t least_rows() const { return 1; }
  /// The vector [P] that represents all rows; there are at least least_updates() rows. `tensor` is their name.
  virtual at::Tensor combine(Rows rows, const std::string& tensor) = 0;

 private:
  MixingConfig mixing_;
};

}  // namespace chorus::inline robust

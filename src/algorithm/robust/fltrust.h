#pragma once

#include <cstdint>

#include "algorithm/robust/row_math.h"
#include "core/ports/aggregation.h"

namespace chorus::inline robust {

struct FlTrustConfig {
  std::int64_t trusted = 0;  ///< the client that holds the server's own, clean data

  void describe(ConfigVisitor& visitor);
};

/// FLTrust (Cao et al. 2021): updates are judged by one that the server trusts, because it comes from data of its own.
/// A client counts by how far it points the same way, and every update is scaled to the trusted one's length:
///
///     c_i = max(0, cos(x_i, x_0)),     result = sum_i c_i |x_0| / |x_i| x_i / sum_i c_i
///
/// The server's data are those of one client of the roster, which is asked in every round besides the cohort; its
/// update itself is not averaged. Any number of attackers can be borne, as long as the trusted data are like the
/// others'.
///
///     aggregation: {name: fltrust, trusted: 0}
class FlTrust : public Aggregation {
 public:
  static constexpr Traits kTraits{.shows_updates = true, .is_mean = false};

  explicit FlTrust(const FlTrustConfig& config) : config_(config) {}
  Aggregated aggregate(AggregationInput input) override;
  /// The trusted one, and one to judge by it.
  std::size_t least_updates() const override { return 2; }

 private:
  FlTrustConfig config_;
};

/// The equation above; undefined when no row points the same way as the reference.
at::Tensor trusted_mean(Rows rows, const at::Tensor& reference);

}  // namespace chorus::inline robust

#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/rare_rows.h"
#include "algorithm/secure_mean/secure_settings.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/ports/aggregation.h"

namespace chorus::inline secure_mean {

/// A weighted mean of which the server learns only the sum over the clients that stayed (algorithm/secure), around any
/// training procedure: clients train, quantise at a common scale, mask and send; weights, counts and losses are masked,
/// too. The asks of a round, in one session:
///
///     secure/begin   model, plan         ->  trains; public keys
///     secure/next    keys of everybody   ->  sealed shares
///     secure/next    shares              ->  masked input
///     secure/next    survivors           ->  shares of seeds (LightSecAgg: the sum of the shares of masks)
///
/// Against an active server clients first say who they are (secure/identify), and sign the list of survivors before
/// they answer it (one more secure/next).
///
/// A client may vanish before or after any of them. When too few stay, the model stays as it is; with clients of other
/// processes the round is repeated (TooFewReplies).
///
/// The result does not depend on masks, so the same seed gives the same bits; with Mode::kCost too.
///
///     aggregation: {name: secagg_plus, corrupt: 0.05, dropout: 0.3}
class SecureMean : public Aggregation {
 public:
  static constexpr Traits kTraits{.shows_updates = false, .is_mean = true, .noisy_sum = false, .masked = true};

  explicit SecureMean(const SecureMeanSettings& settings) : settings_(settings) {}

  void prepare(const AggregationSetting& setting) override;
  Aggregated aggregate(AggregationInput input) override;
  std::size_t least_updates() const override { return static_cast<std::size_t>(settings_.common.least_clients); }
  SumFloor sum_floor(const AggregationSetting& setting) const override;
  std::string refusal(std::size_t clients_per_round, Weighting weighting) const override;
  bool masks() const override { return settings_.common.mode == SecureMeanConfig::Mode::kReal; }

  /// Before which ask a simulated client vanishes; a large number: it stays.
  std::size_t vanishes_before(const AggregationInput& input, ClientId client) const;

 private:
  SumPlan plan_for(std::size_t clients, Weighting weighting) const;
  SumPlan plan_for(const AggregationInput& input) const;
  std::size_t steps() const { return settings_.server == Trust::kActive ? 5 : 4; }
  PublicIdentities identify(const AggregationInput& input, std::vector<ClientReport>& reports) const;
  Aggregated active_sum(AggregationInput& input) const;
  Aggregated real_sum(AggregationInput& input, const PublicIdentities& identities) const;
  struct Begun;  // a sum whose first request is ready
  // `counted`: what a sum of counts before it agreed on.
  Begun begin(const AggregationInput& input, Request first, const PublicIdentities& identities,
              const std::optional<Digest>& counted) const;
  Aggregated modelled_sum(AggregationInput& input) const;
  void check_rare_rows(const Layout& layout) const;
  void tell_terms(const AggregationInput& input);
  void warn_of_cut(double share);
  // For the event of a round.
  std::map<std::string, double> numbers_of(const InputCodec::Sums& sums, std::size_t clients,
                                           std::optional<double> rows_left_out) const;

  SecureMeanSettings settings_;
  std::vector<RowTable> tables_;  // where rare rows are left out
  std::int64_t whole_ = 0;        // elements of what trains
  std::set<std::size_t> told_;    // sizes of cohorts whose terms were logged
  bool cut_told_ = false;
};

/// Ascending.
std::vector<ClientId> sorted_ids(std::span<const Member> cohort);
/// Why there can be no such sum, or "".
std::string fault_of(SumPlan plan);

/// What begins a client's failure in a sum that was given up.
inline constexpr const char* kAbandoned = "the secure sum was abandoned: ";
/// The result of a sum that was given up. With clients of other processes the round has to be repeated: TooFewReplies.
Aggregated abandoned_sum(const AggregationInput& input, std::vector<ClientReport> reports, const std::string& why);

}  // namespace chorus::inline secure_mean

#pragma once

#include <map>
#include <string>

#include "algorithm/secure_mean/sum_plan.h"
#include "core/ports/aggregation.h"

namespace chorus::inline secure_mean {

/// What all protocols have in common.
struct SecureMeanConfig {
  enum class Mode { kReal, kCost };

  double clip = 0.25;                 ///< largest absolute value of an element of an update; larger ones are cut off
  double norm = 0;                    ///< largest L2 norm of an update, scaled down to before; 0: none
  std::int64_t bits = 16;             ///< of a quantised element, sign included
  std::int64_t most_examples = 1000;  ///< weight at which a client's weight is cut off, where weights are not equal
  std::int64_t least_clients = 3;     ///< a sum over fewer is never revealed
  Mode mode = Mode::kReal;            ///< simulation only. cost: plain sums of the same bits, the protocol's cost added
  double vanish = 0;                  ///< simulation only: share of clients that vanish, each before a random step

  void describe(ConfigVisitor& visitor);
};

struct SecAggConfig : SecureMeanConfig {
  Trust server = Trust::kSemiHonest;  ///< active: it may lie

  void describe(ConfigVisitor& visitor);
};

struct SecAggPlusConfig : SecureMeanConfig {
  Trust server = Trust::kSemiHonest;
  double corrupt = 0.1;  ///< share of clients that may collude with the server
  double dropout = 0.2;  ///< share of clients that may vanish

  void describe(ConfigVisitor& visitor);
};

struct LightSecAggConfig : SecureMeanConfig {
  double corrupt = 0.3;
  double dropout = 0.3;

  void describe(ConfigVisitor& visitor);
};

struct SecureMeanSettings {
  SumProtocol protocol = SumProtocol::kSecAggPlus;
  SecureMeanConfig common = {};
  double corrupt = 0.1, dropout = 0.2;
  Trust server = Trust::kSemiHonest;
};

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
/// A client may vanish before or after any of them. When too few stay, the model stays as it is.
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
  std::string refusal(std::size_t clients_per_round, Weighting weighting) const override;
  bool masks() const override { return settings_.common.mode == SecureMeanConfig::Mode::kReal; }

  /// Before which ask a simulated client vanishes; a large number: it stays.
  std::size_t vanishes_before(const AggregationInput& input, ClientId client) const;

 private:
  SumPlan plan_for(std::size_t clients, Weighting weighting) const;
  SumPlan plan_for(const AggregationInput& input) const;
  std::size_t steps() const { return settings_.server == Trust::kActive ? 5 : 4; }
  std::map<ClientId, PublicKey> identify(const AggregationInput& input, std::vector<ClientReport>& reports) const;
  Aggregated active_sum(AggregationInput& input) const;
  Aggregated real_sum(AggregationInput& input, const std::map<ClientId, PublicKey>& identities) const;
  Aggregated modelled_sum(AggregationInput& input) const;

  SecureMeanSettings settings_;
};

}  // namespace chorus::inline secure_mean

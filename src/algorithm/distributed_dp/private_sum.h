#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "algorithm/privacy/budget_ledger.h"
#include "algorithm/secure_mean/secure_mean.h"
#include "core/ports/aggregation.h"

namespace chorus::inline distributed_dp {

struct PrivateSumConfig {
  NoiseKind mechanism = NoiseKind::kSkellam;
  SumProtocol protocol = SumProtocol::kSecAggPlus;
  Trust server = Trust::kSemiHonest;
  double noise = 0;                 ///< standard deviation of the noise in a sum / sensitivity; 0: from `epsilon`
  double epsilon = 0;               ///< budget of every client; 0: none
  double delta = 1e-5;              ///< should be well below 1 / clients
  double clip = 1;                  ///< L2 norm to which updates are clipped
  std::int64_t participations = 0;  ///< rounds that a client takes part in at most; 0: all
  std::int64_t bits = 16;           ///< of a quantised element, sign included
  double corrupt = 0.1;             ///< share of clients that may collude with the server: their noise does not count
  double dropout = 0.2;             ///< share of clients that may vanish: their noise does not count either
  SecureMeanConfig::Mode mode = SecureMeanConfig::Mode::kReal;
  double vanish = 0;          ///< simulation only: share of clients that vanish
  std::string copy = "auto";  ///< folder for the copy of the ledger

  void describe(ConfigVisitor& visitor);
};

/// User-level differential privacy without a trusted server: every client clips its update, adds its share of integer
/// noise (noise_shares/noisy_scale.h) and masks the result, and the server learns only the noisy sum (secure_mean).
///
/// Of n clients, `dropout` n may vanish and `corrupt` n may tell the server their noise. The noise of the
/// m = n - dropout n - corrupt n others suffices for what is charged. Clients themselves refuse to unmask a sum of
/// fewer than n - dropout n, so dropouts end a round before they reduce its noise below what was accounted for.
///
/// The server knows whom it asked, so sampling amplifies nothing. Instead each client has an account of its own,
/// charged before it is asked; the reported epsilon is that of the client that took part most often. One with a spent
/// budget takes no more part. Neighbours differ in one client's contribution, which may be anything or nothing
/// (adjacency add_remove). The mean is over the survivors, whom the server knows.
///
///     aggregation: {name: private_sum, mechanism: skellam, epsilon: 8, delta: 1e-5, clip: 0.5, participations: 4}
///     weighting: equal
class PrivateSum : public Aggregation {
 public:
  explicit PrivateSum(const PrivateSumConfig& config) : config_(config) {}

  void prepare(const AggregationSetting& setting) override;
  bool exhausted() override;
  Aggregated aggregate(AggregationInput input) override;
  std::optional<PrivacyReport> privacy() const override;
  std::string ledger() const override { return ledger_ ? ledger_->mark() : ""; }
  std::size_t least_updates() const override { return 3; }
  /// Without the size of what is summed, noise is not calibrated to `epsilon`.
  SumFloor sum_floor(const AggregationSetting& setting) const override;
  std::string refusal(std::size_t clients_per_round, Weighting weighting) const override;
  bool masks() const override { return config_.mode == SecureMeanConfig::Mode::kReal; }

 private:
  SecureMeanSettings settings_for(std::size_t clients_per_round, double noise) const;
  double noise_for(const AggregationSetting& setting) const;
  double epsilon_of(const Releases& releases) const;
  bool may_take_part(ClientId client) const;
  double most_spent() const;

  PrivateSumConfig config_;
  NoiseShare share_ = {};
  std::size_t values_ = 0;  // elements of what is summed
  double clients_ = 0;      // of the federation
  Mechanism round_ = {};    // what each round is charged as, to each client
  std::unique_ptr<SecureMean> sum_;
  std::unique_ptr<BudgetLedger> ledger_;
  mutable std::map<std::int64_t, double> epsilons_;  // by the number of charges as `round_`
};

}  // namespace chorus::inline distributed_dp

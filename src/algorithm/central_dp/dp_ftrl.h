#pragma once

#include <map>
#include <memory>
#include <string>

#include "algorithm/central_dp/correlated_noise.h"
#include "algorithm/privacy/budget_ledger.h"
#include "core/ports/aggregation.h"

namespace chorus::inline central_dp {

struct DpFtrlConfig {
  MatrixConfig matrix = {};
  double noise = 0;             ///< standard deviation of z / clip; 0: as much as `epsilon` needs
  double epsilon = 0;           ///< the budget of the run; 0: none
  double delta = 1e-5;          ///< well below 1 / clients
  double clip = 1;              ///< L2 norm that an update is clipped to
  std::int64_t separation = 1;  ///< rounds between two of a client, as `selection: separated` has it
  std::int64_t restarts = 1;    ///< times that a killed run can be resumed within `epsilon`
  std::string copy = "auto";    ///< folder for the copy of the ledger; auto: the user's state folder; none: no copy

  void describe(ConfigVisitor& visitor);
};

/// DP-FTRL: user-level differential privacy with a trusted server and no secret sampling (Kairouz et al. 2021;
/// Choquette-Choo et al. 2023; McMahan et al. 2024). Updates are clipped and summed as in private_mean; noise is
/// correlated over the rounds (correlated_noise.h), and all rounds together are one Gaussian mechanism whose
/// sensitivity follows from how often a client takes part: at most ceil(rounds / separation) times, `separation` rounds
/// apart, which the selector enforces and this class checks.
///
/// The whole run is charged before its first round. Past noise is never saved; a resumed run begins a new mechanism,
/// which is charged again.
///
///     aggregation: {name: dp_ftrl, matrix: blt, epsilon: 8, separation: 20, clip: 0.5}
///     selection: {name: separated, separation: 20}
///     weighting: equal
class DpFtrl : public Aggregation {
 public:
  explicit DpFtrl(const DpFtrlConfig& config) : config_(config) {}

  void prepare(const AggregationSetting& setting) override;
  bool answers_for_nobody() const override { return true; }
  bool exhausted() override;
  Aggregated aggregate(AggregationInput input) override;
  std::optional<PrivacyReport> privacy() const override;
  std::string ledger() const override { return ledger_ ? ledger_->mark() : ""; }

 private:
  void begin(std::int64_t parameters);
  double epsilon_of(bool one_more) const;
  void check_turns(const AggregationInput& input);

  DpFtrlConfig config_;
  Participation participation_{};
  double sensitivity_ = 1, noise_ = 0;  // of the matrix; z / clip
  Mechanism run_{};                     // what a process is charged as
  double expected_ = 0;
  std::unique_ptr<BudgetLedger> ledger_;
  std::unique_ptr<CorrelatedSums> sums_;  // once the run is charged
  std::map<ClientId, std::uint64_t> last_;
};

}  // namespace chorus::inline central_dp

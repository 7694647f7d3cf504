#include "algorithm/central_dp/dp_ftrl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/central_dp/clipped_sum.h"
#include "algorithm/federated/read_updates.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline central_dp {

void DpFtrlConfig::describe(ConfigVisitor& v) {
  v.field("matrix", matrix.kind,
          {{"tree", MatrixKind::kTree}, {"banded", MatrixKind::kBanded}, {"blt", MatrixKind::kBlt}},
          "how noise is correlated over the rounds");
  v.field("bands", matrix.bands, "banded: bands of the matrix").at_least(1).at_most(10'000);
  v.field("buffers", matrix.buffers, "blt: exponentials of the matrix").at_least(1).at_most(64);
  v.field("noise", noise, "standard deviation of the noise / clip; 0: as much as epsilon needs")
      .at_least(0)
      .at_most(1e4);
  v.field("epsilon", epsilon, "the budget of the run; 0: none").at_least(0).at_most(1e4);
  v.field("delta", delta, "probability that the promise fails; choose it well below 1 / clients").above(0).below(1);
  v.field("clip", clip, "L2 norm that an update is clipped to").above(0).at_most(1e6);
  v.field("separation", separation, "rounds between two of a client, as selection: separated has it").at_least(1);
  v.field("restarts", restarts, "times that a killed run can be resumed within epsilon").at_least(0).at_most(1000);
  v.field("copy", copy,
          "folder for a copy of the ledger, which counts after a restore from a backup; auto: "
          "$XDG_STATE_HOME/chorus/budgets; none");
}

void DpFtrl::prepare(const AggregationSetting& setting) {
  check(config_.noise > 0 || config_.epsilon > 0, "there is neither noise nor a budget");
  expected_ = setting.clients_per_round;
  participation_ = {.steps = setting.rounds,
                    .most = (setting.rounds + config_.separation - 1) / config_.separation,
                    .separation = config_.separation};
  sensitivity_ = matrix_sensitivity(config_.matrix, participation_);
  noise_ = config_.noise;
  if (noise_ <= 0) {
    const Mechanism all{.noise = 1, .steps = 1 + config_.restarts};
    noise_ = sensitivity_ *
             calibrate({.mechanisms = {all}, .delta = config_.delta}, config_.epsilon, AccountantKind::kPld) *
             (1 + 1e-3);
    Log("privacy").info("noise {:.4f} keeps {} rounds, {} of them a client's, within epsilon {} at delta {:g}", noise_,
                        setting.rounds, participation_.most, config_.epsilon, config_.delta);
  }
  // A thousandth for rounding (correlated_noise.h); checked when the number of parameters is known.
  run_ = {.kind = MechanismKind::kGaussian, .noise = noise_ / sensitivity_ / (1 + 1e-3)};
  check(!setting.folder.empty(), "a private run has a folder for its ledger");
  BudgetLedger::Place place{.file = setting.folder / "privacy.ledger", .mark = setting.ledger};
  if (config_.copy != "none" && !setting.trial) {
    place.mirror = config_.copy == "auto" ? ledger_mirror_folder() : std::filesystem::path(config_.copy);
  }
  ledger_.reset();
  ledger_ = std::make_unique<BudgetLedger>(std::move(place), Adjacency::kAddRemove);
  sums_.reset();
}

double DpFtrl::epsilon_of(bool one_more) const {
  Releases releases = ledger_->releases(config_.delta);
  if (one_more) add(releases, run_);
  return account(releases, AccountantKind::kPld, std::size_t{1} << 18).epsilon;
}

bool DpFtrl::exhausted() {
  check(ledger_ != nullptr, "prepare comes first");
  return !sums_ && config_.epsilon > 0 && epsilon_of(true) > config_.epsilon;
}

// Before the first sum of this process.
void DpFtrl::begin(std::int64_t parameters) {
  const double rounding = std::sqrt(static_cast<double>(parameters) * static_cast<double>(participation_.steps));
  if (rounding > 1e-3 * sensitivity_ * ClippedSum::units_of(noise_)) {
    throw ConfigError(
        "aggregation: dp_ftrl: so many parameters and rounds need a finer grid than this program has; train fewer "
        "parameters (tuning: lora), or make fewer rounds");
  }
  ledger_->charge(run_, fmt::format("{} rounds", participation_.steps));
  sums_ = std::make_unique<CorrelatedSums>(config_.matrix, participation_.steps);
}

// The accounting rests on it, so a selector is not believed.
void DpFtrl::check_turns(const AggregationInput& input) {
  for (const Member& member : input.cohort) {
    const auto found = last_.find(member.client);
    const bool early = found != last_.end() && input.request.round > found->second &&
                       input.request.round - found->second < static_cast<std::uint64_t>(config_.separation);
    check(!early && member.times == 1, "a client takes part more often than was accounted for");
    last_[member.client] = input.request.round;
  }
}

Aggregated DpFtrl::aggregate(AggregationInput input) {
  check(ledger_ != nullptr, "prepare comes first");
  check(input.weighting == Weighting::kEqual && input.tensors.size() == 1, "one sum of equal weights can be protected");
  if (!sums_) begin(input.size);
  check_turns(input);
  ClippedSum sum(input.size, input.device, {.clip = config_.clip, .noise = noise_});
  UpdateReader reader;
  reader.use = [&](std::size_t, const std::vector<double>&, const std::vector<at::Tensor>& tensors) {
    sum.add(tensors[0]);
  };
  reader.skip = [](std::size_t) {};
  Aggregated result;
  result.clients = read_updates(input, reader);
  const at::Tensor released = sums_->release(sum.take(), &ClippedSum::draw);
  result.means.push_back(released.mul(config_.clip / ClippedSum::units_of(noise_) / expected_).to(at::kFloat));
  result.numbers = {{"epsilon", epsilon_of(false)}, {"delta", config_.delta}, {"clip", config_.clip}};
  return result;
}

std::optional<PrivacyReport> DpFtrl::privacy() const {
  if (!ledger_) return std::nullopt;
  PrivacyReport report{.epsilon = epsilon_of(false),
                       .delta = config_.delta,
                       .noise = noise_,
                       .sampling_rate = 1,
                       .charges = static_cast<std::int64_t>(ledger_->charges())};
  report.statement = fmt::format(
      "The final model is ({:.4g}, {:g})-differentially private for every client with all its examples (user level, a "
      "client added or removed) against anyone who sees all models of the run. No secret sampling is assumed: a client "
      "took part in at most {} rounds, at least {} apart. Its updates were clipped, and correlated Gaussian noise was "
      "added (DP-FTRL). The server is trusted: it sees updates, losses and cohorts, which its log shows and which are "
      "not protected.",
      report.epsilon, report.delta, participation_.most, participation_.separation);
  return report;
}

namespace {

const Registration<Aggregations, DpFtrlConfig> kRegisteredDpFtrl{
    "dp_ftrl",
    "a clipped mean with noise that is correlated over rounds: user-level privacy without sampling (Kairouz et al. "
    "2021)",
    [](const DpFtrlConfig& config) { return std::make_unique<DpFtrl>(config); },
    {.shows_updates = false, .is_mean = false, .noisy_sum = true, .separated = true}};

}  // namespace
}  // namespace chorus::inline central_dp

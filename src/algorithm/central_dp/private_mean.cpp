#include "algorithm/central_dp/private_mean.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/central_dp/clipped_sum.h"
#include "algorithm/federated/read_updates.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline central_dp {
namespace {

// Few cells report a slightly larger epsilon, which is precise enough far from the end of the budget.
constexpr std::size_t kQuick = std::size_t{1} << 14, kExact = std::size_t{1} << 18;

}  // namespace

void PrivateMeanConfig::describe(ConfigVisitor& v) {
  v.field("noise", noise, "standard deviation of the noise / clip; 0: calibrated to epsilon").at_least(0).at_most(1e4);
  v.field("epsilon", epsilon, "the budget: the run ends before it is exceeded; 0: none").at_least(0).at_most(1e4);
  v.field("delta", delta, "probability that the promise fails; choose it well below 1 / clients").above(0).below(1);
  v.field("clip", clip, "L2 norm to which updates are clipped; with quantile, in the first round")
      .above(0)
      .at_most(1e6);
  v.field("quantile", quantile, "share of updates that stay unclipped; clip adapts to it. 0: clip is fixed")
      .at_least(0)
      .below(1);
  v.field("clip_rate", clip_rate, "how fast the clipping norm adapts (Andrew et al. 2021)").above(0).at_most(10);
  v.field("count_noise", count_noise,
          "standard deviation of the noise of the count that it adapts by; 0: clients_per_round / 20, at least noise")
      .at_least(0)
      .at_most(1e6);
  v.field("copy", copy,
          "folder for a copy of the ledger, which counts after a restore from a backup; auto: "
          "$XDG_STATE_HOME/chorus/budgets; "
          "none");
}

void PrivateMean::prepare(const AggregationSetting& setting) {
  check(config_.noise > 0 || config_.epsilon > 0, "there is neither noise nor a budget");
  const double rate = std::min(1.0, setting.clients_per_round / std::max(setting.clients, 1.0));
  expected_ = setting.clients_per_round;
  round_ = {.kind = MechanismKind::kGaussian, .noise = config_.noise, .sampling_rate = rate};
  if (config_.noise <= 0) {
    Mechanism all = round_;
    all.steps = setting.rounds;
    round_.noise = calibrate({.mechanisms = {all}, .delta = config_.delta}, config_.epsilon, AccountantKind::kPld);
    Log("privacy").info("noise {:.4f} keeps {} rounds within epsilon {} at delta {:g}", round_.noise, setting.rounds,
                        config_.epsilon, config_.delta);
  }
  count_noise_ = config_.count_noise > 0 ? config_.count_noise : std::max(expected_ / 20, round_.noise);
  update_noise();
  if (config_.delta > 1 / std::max(setting.clients, 1.0)) {
    Log("privacy").warning("delta {:g} is above 1 / {} clients: it allows to publish somebody's data; lower it",
                           config_.delta, setting.clients);
  }
  check(!setting.folder.empty(), "a private run has a folder for its ledger");
  const bool copied = config_.copy != "none" && !setting.trial;
  BudgetLedger::Place place{.file = setting.folder / "privacy.ledger", .mark = setting.ledger};
  if (copied) place.mirror = config_.copy == "auto" ? ledger_mirror_folder() : std::filesystem::path(config_.copy);
  ledger_.reset();  // releases its lock
  ledger_ = std::make_unique<BudgetLedger>(std::move(place), Adjacency::kAddRemove);
}

double PrivateMean::update_noise() const {
  if (config_.quantile <= 0) return round_.noise;
  const double left = 1 / (round_.noise * round_.noise) - 1 / (4 * count_noise_ * count_noise_);
  if (left <= 0) {
    throw ConfigError(fmt::format("aggregation.count_noise is {}; with noise {:.4g} it must be above {:.4g}",
                                  count_noise_, round_.noise, round_.noise / 2));
  }
  return 1 / std::sqrt(left);
}

double PrivateMean::epsilon_of(bool one_more) const {
  Releases releases = ledger_->releases(config_.delta);
  if (one_more) add(releases, round_);
  const double quick = account(releases, AccountantKind::kPld, kQuick).epsilon;
  const bool far = config_.epsilon <= 0 || quick < 0.95 * config_.epsilon;
  return one_more && far ? quick : account(releases, AccountantKind::kPld, kExact).epsilon;
}

double PrivateMean::next_epsilon() {
  if (!next_ || next_->first != ledger_->charges()) next_ = {ledger_->charges(), epsilon_of(true)};
  return next_->second;
}

bool PrivateMean::exhausted() {
  check(ledger_ != nullptr, "prepare comes first");
  return config_.epsilon > 0 && next_epsilon() > config_.epsilon;
}

Aggregated PrivateMean::aggregate(AggregationInput input) {
  check(ledger_ != nullptr, "prepare comes first");
  check(input.weighting == Weighting::kEqual && input.tensors.size() == 1, "one sum of equal weights can be protected");
  const double noise = update_noise(), epsilon = next_epsilon();
  // Charged before anything is known about the clients: a round that fails after this point may have been observed.
  ledger_->charge(round_, fmt::format("round {}", input.request.round));

  ClippedSum sum(input.size, input.device, {.clip = clip_, .noise = noise});
  ClippedSum count(1, at::kCPU, {.clip = 1, .noise = 2 * count_noise_});  // of +1 and -1 instead of +-1/2
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>&, const std::vector<at::Tensor>& tensors) {
    check(input.cohort[slot].times == 1, "a client is drawn once");
    const double norm = sum.add(tensors[0]);
    count.add(at::full({1}, norm <= clip_ ? 1.0F : -1.0F));
  };
  reader.skip = [](std::size_t) {};
  Aggregated result;
  result.clients = read_updates(input, reader);
  result.means.push_back(sum.release().div_(expected_));
  result.numbers = {{"epsilon", epsilon}, {"delta", config_.delta}, {"clip", clip_}};
  if (config_.quantile > 0) adapt(count.release().item<double>() / 2, expected_);
  return result;
}

void PrivateMean::adapt(double below, double expected) {
  const double share = below / expected + 0.5;
  clip_ *= std::exp(-config_.clip_rate * (share - config_.quantile));
  clip_ = std::clamp(clip_, 1e-6 * config_.clip, 1e6 * config_.clip);
}

std::optional<PrivacyReport> PrivateMean::privacy() const {
  if (!ledger_) return std::nullopt;
  PrivacyReport report{.epsilon = epsilon_of(false),
                       .delta = config_.delta,
                       .noise = round_.noise,
                       .sampling_rate = round_.sampling_rate,
                       .charges = static_cast<std::int64_t>(ledger_->charges())};
  report.statement = fmt::format(
      "The final model is ({:.4g}, {:g})-differentially private for every client with all its examples (user level, a "
      "client "
      "added or removed) against anyone who sees all models of the run. Each round was a secret Poisson sample with "
      "probability {:.4g}, clipped to a fixed sensitivity, with Gaussian noise of {:.4g} times it. The server is "
      "trusted: it "
      "sees updates, losses and cohorts, which its log shows and which are not protected.",
      report.epsilon, report.delta, report.sampling_rate, report.noise);
  return report;
}

std::map<std::string, at::Tensor> PrivateMean::state() const { return {{"clip", at::full({1}, clip_, at::kDouble)}}; }

void PrivateMean::restore(const std::map<std::string, at::Tensor>& state) {
  const auto found = state.find("clip");
  if (found == state.end()) return;
  const double clip = found->second.numel() == 1 ? found->second.item<double>() : 0;
  if (!(clip > 0 && std::isfinite(clip))) throw DataError("the checkpoint's clipping norm is not a positive number");
  clip_ = clip;
}

namespace {

const Registration<Aggregations, PrivateMeanConfig> kRegisteredPrivateMean{
    "private_mean",
    "a clipped mean with noise: differential privacy for every client (McMahan et al. 2018)",
    [](const PrivateMeanConfig& config) { return std::make_unique<PrivateMean>(config); },
    {.shows_updates = false, .is_mean = false, .noisy_sum = true}};

}  // namespace
}  // namespace chorus::inline central_dp

#include "algorithm/example_dp/secret_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/noise/wide_gaussian.h"
#include "algorithm/privacy/pld.h"
#include "algorithm/privacy/rdp.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline example_dp {
namespace {

static_assert(static_cast<double>(kWideDeviation) == ExampleGuard::kUnits);

// Few cells report a little more, which is enough far from the end of the budget.
constexpr std::size_t kQuickCells = std::size_t{1} << 14, kFineCells = std::size_t{1} << 18;

}  // namespace

SecretGuard::SecretGuard(const ExampleGuardInput& input) : config_(input.config), noise_(input.config.noise) {
  if (noise_ <= 0 && config_.epsilon <= 0) {
    throw ConfigError("trainer.privacy: give noise, or epsilon to compute it from; without noise nothing is private");
  }
  if (noise_ <= 0) noise_ = calibrated(input);
  BudgetLedger::Place place{.file = input.folder / "examples.ledger", .mark = input.mark};
  if (config_.copy != "none") {
    place.mirror = config_.copy == "auto" ? ledger_mirror_folder() : std::filesystem::path(config_.copy);
  }
  ledger_ = std::make_unique<BudgetLedger>(std::move(place), Adjacency::kAddRemove);
}

Mechanism SecretGuard::mechanism_of(const ExampleWork& work) const {
  return {.kind = MechanismKind::kGaussian, .noise = noise_, .sampling_rate = work.sampling_rate, .steps = work.steps};
}

// For the client that needs most of it.
double SecretGuard::calibrated(const ExampleGuardInput& input) const {
  const std::int64_t rounds = config_.rounds > 0 ? config_.rounds : input.rounds;
  Releases worst{.mechanisms = {}, .delta = config_.delta};
  double most = -1;
  for (const ExampleWork& work : input.work) {
    const Mechanism all{.noise = 1, .sampling_rate = work.sampling_rate, .steps = work.steps * rounds};
    const Releases releases{.mechanisms = {all}, .delta = config_.delta};
    const double epsilon = renyi_epsilon(releases);
    if (epsilon <= most) continue;
    most = epsilon;
    worst = releases;
  }
  if (worst.mechanisms.empty()) throw ConfigError("trainer.privacy: no client has examples to train on");
  const double noise = calibrate(worst, config_.epsilon, AccountantKind::kPld);
  Log("privacy").info("noise {:.4f} keeps {} rounds of every client within epsilon {} at delta {:g}", noise, rounds,
                      config_.epsilon, config_.delta);
  return noise;
}

// Divergences add up, so those of one step are computed once.
double SecretGuard::renyi_epsilon(const Releases& releases) const {
  const std::vector<double>& orders = rdp_orders();
  std::vector<double> sum(orders.size(), 0.0);
  for (const Mechanism& m : releases.mechanisms) {
    std::vector<double>& costs = step_costs_[{m.noise, m.sampling_rate}];
    for (std::size_t i = costs.size(); i < orders.size(); ++i) {
      costs.push_back(step_rdp(m, Adjacency::kAddRemove, orders[i]));
    }
    for (std::size_t i = 0; i < orders.size(); ++i) sum[i] += static_cast<double>(m.steps) * costs[i];
  }
  return releases.mechanisms.empty() ? 0 : epsilon_of_rdp(orders, sum, releases.delta);
}

bool SecretGuard::within_budget(const Releases& releases) const {
  if (config_.epsilon <= 0 || renyi_epsilon(releases) <= config_.epsilon) return true;
  const auto enough = [&](std::size_t cells) {
    return pld_epsilon(releases.mechanisms, releases.adjacency, releases.delta, cells) <= config_.epsilon;
  };
  return enough(kQuickCells) || enough(kFineCells);
}

std::vector<std::string> SecretGuard::charge(std::span<const ExampleWork> work, std::uint64_t round) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> refusals;
  std::vector<BudgetLedger::Charge> charges;
  for (const ExampleWork& each : work) {
    Releases releases = ledger_->releases(config_.delta, each.client);
    add(releases, mechanism_of(each));
    const bool allowed = within_budget(releases);
    refusals.push_back(allowed ? "" : fmt::format("its privacy budget of epsilon {} is spent", config_.epsilon));
    if (allowed) charges.push_back({mechanism_of(each), fmt::format("round {}", round), each.client});
  }
  if (!charges.empty()) ledger_->charge(charges);
  return refusals;
}

std::vector<std::uint32_t> SecretGuard::sample(std::size_t examples, double rate) const {
  std::vector<std::uint32_t> drawn;
  SecretStream stream;
  // Rounded down: an example must not take part more often than accounted for.
  const double limit = std::ldexp(rate, 64);
  const bool all = limit >= 0x1.0p64;
  const auto threshold = all ? 0 : static_cast<std::uint64_t>(limit);
  for (std::size_t i = 0; i < examples; ++i) {
    if (all || stream.next_u64() < threshold) drawn.push_back(static_cast<std::uint32_t>(i));
  }
  return drawn;
}

void SecretGuard::draw(std::span<std::int64_t> noise) const {
  SecretStream stream;  // a key of its own
  wide_gaussian(stream, noise);
}

double SecretGuard::epsilon() const {
  const std::lock_guard lock(mutex_);
  double most = 0;
  for (const std::uint64_t client : ledger_->clients()) {
    most = std::max(most, renyi_epsilon(ledger_->releases(config_.delta, client)));
  }
  return most;
}

std::string SecretGuard::mark() const {
  const std::lock_guard lock(mutex_);
  return ledger_->mark();
}

PrivacyReport SecretGuard::report() const {
  const std::lock_guard lock(mutex_);
  PrivacyReport report{
      .delta = config_.delta, .noise = noise_, .charges = static_cast<std::int64_t>(ledger_->charges())};
  // From the largest Rényi bound down: the others cannot exceed what was found once their bound is below it.
  std::vector<std::pair<double, std::uint64_t>> clients;
  for (const std::uint64_t client : ledger_->clients()) {
    clients.emplace_back(renyi_epsilon(ledger_->releases(config_.delta, client)), client);
  }
  std::sort(clients.rbegin(), clients.rend());
  for (const auto& [bound, client] : clients) {
    if (bound <= report.epsilon) break;
    const Releases releases = ledger_->releases(config_.delta, client);
    const double quick = account(releases, AccountantKind::kPld, kQuickCells).epsilon;
    if (quick <= report.epsilon) continue;
    report.epsilon = std::max(report.epsilon, account(releases, AccountantKind::kPld, kFineCells).epsilon);
    report.sampling_rate = releases.mechanisms.front().sampling_rate;
  }
  report.statement = fmt::format(
      "Every update that a client sends is ({:.4g}, {:g})-differentially private for every single training example of "
      "that client (example level, an example added or removed) against the server and anyone who sees all updates of "
      "the run: the gradient of each example of a secret Poisson sample was clipped, and Gaussian noise of {:.4g} "
      "times "
      "that bound was added on the client (DP-SGD). The numbers are those of the client that spent most. Not "
      "protected: "
      "how many examples a client has, a person who wrote many of them, and scores on clients' own test examples.",
      report.epsilon, report.delta, report.noise);
  return report;
}

namespace {

const Registration<ExampleGuards> kRegisteredSecretGuard{
    "secret", "samples and noise of trainer.privacy: example-level differential privacy (Abadi et al. 2016)",
    [](const ExampleGuardInput& input) { return std::make_unique<SecretGuard>(input); }};

}  // namespace
}  // namespace chorus::inline example_dp

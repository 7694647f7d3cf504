#include "algorithm/distributed_dp/private_sum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline distributed_dp {
namespace {

struct Counted {
  std::size_t least = 0, colluding = 0;
  std::size_t honest() const { return least > colluding ? least - colluding : 0; }
};

// Of n clients: the fewest that a sum is revealed of, and how many of them may have told the server their noise.
Counted counted(const PrivateSumConfig& config, std::size_t clients) {
  const auto n = static_cast<double>(clients);
  Counted result;
  result.least = std::max<std::size_t>(3, clients - static_cast<std::size_t>(config.dropout * n + 1e-9));
  result.colluding = static_cast<std::size_t>(std::ceil(config.corrupt * n - 1e-9));
  return result;
}

}  // namespace

void PrivateSumConfig::describe(ConfigVisitor& v) {
  v.field("mechanism", mechanism,
          {{"skellam", NoiseKind::kSkellam}, {"discrete_gaussian", NoiseKind::kDiscreteGaussian}},
          "the noise that clients add");
  v.field("protocol", protocol,
          {{"secagg", SumProtocol::kSecAgg},
           {"secagg_plus", SumProtocol::kSecAggPlus},
           {"light_secagg", SumProtocol::kLightSecAgg}},
          "the secure sum");
  v.field("server", server, {{"semi_honest", Trust::kSemiHonest}, {"active", Trust::kActive}},
          "what the server is trusted with. active: it may lie, so clients sign keys and the list of survivors");
  v.field("noise", noise, "standard deviation of the noise in a sum / clip; 0: calibrated to epsilon")
      .at_least(0)
      .at_most(1e4);
  v.field("epsilon", epsilon, "budget of every client; one that has spent it takes no more part. 0: none")
      .at_least(0)
      .at_most(1e4);
  v.field("delta", delta, "probability that the promise fails; choose it well below 1 / clients").above(0).below(1);
  v.field("clip", clip, "L2 norm to which updates are clipped").above(0).at_most(1e6);
  v.field("participations", participations, "rounds that a client takes part in at most; 0: any number")
      .at_least(0)
      .at_most(1e6);
  v.field("bits", bits, "of a quantised element of one client, sign included").at_least(4).at_most(24);
  v.field("corrupt", corrupt, "share of clients that may collude with the server; their noise does not count")
      .at_least(0.01)
      .below(0.9);
  v.field("dropout", dropout, "share of clients that may vanish; when more do, the sum is abandoned")
      .at_least(0)
      .below(0.9);
  v.field("mode", mode, {{"real", SecureMeanConfig::Mode::kReal}, {"cost", SecureMeanConfig::Mode::kCost}},
          "cost: simulate only; plain sums with the same noise, with the protocol's bytes and time added");
  v.field("vanish", vanish, "in a simulation: share of clients that vanish, each before a random step of the sum")
      .at_least(0)
      .below(1);
  v.field("copy", copy,
          "folder for a copy of the ledger, which counts after a restore from a backup; auto: "
          "$XDG_STATE_HOME/chorus/budgets; none");
}

SecureMeanSettings PrivateSum::settings_for(std::size_t clients_per_round, double noise) const {
  const Counted count = counted(config_, clients_per_round);
  SecureMeanSettings settings{config_.protocol, {}, config_.corrupt, config_.dropout, config_.server};
  settings.common.bits = config_.bits;
  settings.common.least_clients = static_cast<std::int64_t>(count.least);
  settings.common.mode = config_.mode;
  settings.common.vanish = config_.vanish;
  settings.noise = {.kind = config_.mechanism,
                    .noise = noise,
                    .clip = config_.clip,
                    .bits = static_cast<unsigned>(config_.bits),
                    .clients = clients_per_round,
                    .honest = count.honest()};
  return settings;
}

std::string PrivateSum::refusal(std::size_t clients_per_round, Weighting weighting) const {
  if (weighting != Weighting::kEqual) return "weights that depend on data have no bounded effect; set weighting: equal";
  const Counted count = counted(config_, clients_per_round);
  if (count.honest() < 1) {
    return fmt::format(
        "when {} stay and {} of them collude, nobody's noise can be counted on; lower corrupt or dropout, or ask more "
        "clients",
        count.least, count.colluding);
  }
  if (config_.server == Trust::kActive && config_.protocol == SumProtocol::kLightSecAgg) {
    return "light_secagg bears no active server; use secagg_plus";
  }
  return SecureMean(settings_for(clients_per_round, std::max(config_.noise, 1.0)))
      .refusal(clients_per_round, weighting);
}

namespace {

// How often a client is charged at most.
std::int64_t times_of(const PrivateSumConfig& config, const AggregationSetting& setting) {
  const std::int64_t rounds = std::max<std::int64_t>(setting.rounds, 1);
  return config.participations > 0 ? std::min(config.participations, rounds) : rounds;
}

Mechanism mechanism_of(const NoiseShare& share, std::int64_t size) {
  return NoisyScale(share, {.ring_bits = 64, .capacity = 61, .values = static_cast<std::size_t>(size)}).mechanism();
}

}  // namespace

double PrivateSum::noise_for(const AggregationSetting& setting) const {
  if (config_.noise > 0) return config_.noise;
  Mechanism all =
      mechanism_of(settings_for(static_cast<std::size_t>(setting.clients_per_round), 1).noise, setting.size);
  all.steps = times_of(config_, setting);
  return calibrate({.mechanisms = {all}, .delta = config_.delta}, config_.epsilon, AccountantKind::kRdp);
}

SumFloor PrivateSum::sum_floor(const AggregationSetting& setting) const {
  const Counted count = counted(config_, static_cast<std::size_t>(setting.clients_per_round));
  const bool known = config_.noise > 0 || setting.size > 0;
  return {.clients = count.least, .noise = known ? noise_for(setting) : 0, .honest = count.honest()};
}

void PrivateSum::prepare(const AggregationSetting& setting) {
  check(config_.noise > 0 || config_.epsilon > 0, "there is neither noise nor a budget");
  check(setting.size > 0, "the size of the sum is known");
  check(!setting.folder.empty(), "a private run has a folder for its ledger");
  values_ = static_cast<std::size_t>(setting.size);
  clients_ = setting.clients;
  const auto per_round = static_cast<std::size_t>(setting.clients_per_round);
  const double noise = noise_for(setting);
  if (config_.noise <= 0) {
    Log("privacy").info("noise {:.4f} keeps {} participations of a client within epsilon {} at delta {:g}", noise,
                        times_of(config_, setting), config_.epsilon, config_.delta);
  }
  const SecureMeanSettings settings = settings_for(per_round, noise);
  share_ = settings.noise;
  round_ = mechanism_of(share_, setting.size);
  epsilons_.clear();
  sum_ = std::make_unique<SecureMean>(settings);
  sum_->prepare(setting);
  Log("privacy").info(
      "{} noise on the clients: {:.4f} times the clipping norm in the sum of {} honest clients, of {} that are asked",
      name_of(share_.kind), share_.noise, share_.honest, per_round);
  if (config_.delta > 1 / std::max(setting.clients, 1.0)) {
    Log("privacy").warning("delta {:g} is above 1 / {} clients: it allows to publish somebody's data; lower it",
                           config_.delta, setting.clients);
  }
  BudgetLedger::Place place{.file = setting.folder / "privacy.ledger", .mark = setting.ledger};
  if (config_.copy != "none" && !setting.trial) {
    place.mirror = config_.copy == "auto" ? ledger_mirror_folder() : std::filesystem::path(config_.copy);
  }
  ledger_.reset();  // releases its lock
  ledger_ = std::make_unique<BudgetLedger>(std::move(place), Adjacency::kAddRemove);
}

double PrivateSum::epsilon_of(const Releases& releases) const {
  const bool usual = releases.mechanisms.size() == 1 && [&] {
    Mechanism one = releases.mechanisms.front();
    one.steps = round_.steps;
    return one == round_;
  }();
  if (!usual) return account(releases, AccountantKind::kRdp).epsilon;
  const std::int64_t steps = releases.mechanisms.front().steps;
  const auto found = epsilons_.find(steps);
  if (found != epsilons_.end()) return found->second;
  return epsilons_[steps] = account(releases, AccountantKind::kRdp).epsilon;
}

bool PrivateSum::may_take_part(ClientId client) const {
  Releases releases = ledger_->releases(config_.delta, client);
  std::int64_t times = 0;
  for (const Mechanism& m : releases.mechanisms) times += m.steps;
  if (config_.participations > 0 && times >= config_.participations) return false;
  if (config_.epsilon <= 0) return true;
  add(releases, round_);
  return epsilon_of(releases) <= config_.epsilon * (1 + 1e-9);
}

double PrivateSum::most_spent() const {
  double most = 0;
  for (const std::uint64_t client : ledger_->clients()) {
    most = std::max(most, epsilon_of(ledger_->releases(config_.delta, client)));
  }
  return most;
}

bool PrivateSum::exhausted() {
  check(ledger_ != nullptr, "prepare comes first");
  double spent = 0;
  for (const std::uint64_t client : ledger_->clients()) {
    spent += may_take_part(static_cast<ClientId>(client)) ? 0 : 1;
  }
  return clients_ - spent < static_cast<double>(counted(config_, share_.clients).least);
}

Aggregated PrivateSum::aggregate(AggregationInput input) {
  check(ledger_ != nullptr, "prepare comes first");
  check(input.weighting == Weighting::kEqual && input.tensors.size() == 1, "one sum of equal weights can be protected");
  check(static_cast<std::size_t>(input.size) == values_, "a sum of another size was accounted for");
  std::vector<Member> members;
  std::vector<std::size_t> slots;
  std::vector<ClientReport> reports(input.cohort.size());
  std::vector<BudgetLedger::Charge> charges;
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    if (!may_take_part(input.cohort[slot].client)) {
      reports[slot].failure = "its privacy budget is spent";
      continue;
    }
    members.push_back(input.cohort[slot]);
    slots.push_back(slot);
    charges.push_back({round_, fmt::format("round {}", input.request.round), input.cohort[slot].client});
  }
  // A sum that is not begun releases nothing.
  if (members.size() >= counted(config_, share_.clients).least) ledger_->charge(charges);
  AggregationInput part = std::move(input);
  part.cohort = members;
  Aggregated result = sum_->aggregate(std::move(part));
  for (std::size_t i = 0; i < slots.size(); ++i) reports[slots[i]] = std::move(result.clients.at(i));
  result.clients = std::move(reports);
  for (ClientReport& report : result.clients) {
    // Not in the sum; a simulation that only models it (mode: cost) knows more than the server would.
    report.loss = std::numeric_limits<double>::quiet_NaN();
    report.examples = 0;
  }
  result.numbers["epsilon"] = most_spent();
  result.numbers["delta"] = config_.delta;
  return result;
}

std::optional<PrivacyReport> PrivateSum::privacy() const {
  if (!ledger_) return std::nullopt;
  std::int64_t most = 0;
  for (const std::uint64_t client : ledger_->clients()) {
    std::int64_t times = 0;
    for (const Mechanism& m : ledger_->releases(config_.delta, client).mechanisms) times += m.steps;
    most = std::max(most, times);
  }
  PrivacyReport report{.epsilon = most_spent(),
                       .delta = config_.delta,
                       .noise = share_.noise,
                       .sampling_rate = 1,
                       .charges = static_cast<std::int64_t>(ledger_->charges())};
  const Counted count = counted(config_, share_.clients);
  report.statement = fmt::format(
      "Every client with all its examples is ({:.4g}, {:g})-differentially private (user level, its contribution "
      "present or absent) against {} server, up to {} clients of a round that collude with it, and anyone who sees all "
      "models of the run: each client clipped its update and added its share of {} noise before a secure sum ({}), of "
      "which the server learnt only the total. The noise of {} honest clients, {:.4g} times the sensitivity, was "
      "accounted for; sums of fewer than {} clients were not revealed. No sampling was counted on. The numbers are "
      "those of the client that took part most often ({} times). Not protected: who took part, and when.",
      report.epsilon, report.delta, config_.server == Trust::kActive ? "an active" : "a semi-honest", count.colluding,
      name_of(share_.kind), name_of(config_.protocol), share_.honest, report.noise, count.least, most);
  return report;
}

namespace {

const Registration<Aggregations, PrivateSumConfig> kRegisteredPrivateSum{
    "private_sum",
    "a secure sum with noise of the clients (Kairouz et al. 2021): user-level privacy against the server, too",
    [](const PrivateSumConfig& config) { return std::make_unique<PrivateSum>(config); },
    {.shows_updates = false, .is_mean = false, .noisy_sum = true, .masked = true}};

}  // namespace
}  // namespace chorus::inline distributed_dp

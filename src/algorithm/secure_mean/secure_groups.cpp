#include "algorithm/secure_mean/secure_groups.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline secure_mean {
namespace {

/// The groups as a rule sees them: clients that reply with the mean of their group.
class GroupMeans : public Federation {
 public:
  GroupMeans(const std::vector<AggregatedTensor>& tensors, std::vector<std::vector<at::Tensor>> means)
      : tensors_(tensors), means_(std::move(means)), roster_(Roster::of_sizes(std::vector<double>(means_.size(), 1))) {}

  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request) override {
    const auto next = std::make_shared<std::size_t>(0);
    const std::size_t count = cohort.size();
    return Replies([this, next, count]() -> std::optional<Reply> {
      if (*next == count) return std::nullopt;
      Reply reply{static_cast<ClientId>(*next), *next};
      for (std::size_t i = 0; i < tensors_.size(); ++i) reply.body.tensors[tensors_[i].name] = means_[*next][i];
      reply.body.numbers["examples"] = 1;
      ++*next;
      return reply;
    });
  }

 private:
  const std::vector<AggregatedTensor>& tensors_;
  std::vector<std::vector<at::Tensor>> means_;
  Roster roster_;
};

std::vector<std::vector<std::size_t>> deal(const AggregationInput& input, std::size_t groups) {
  std::vector<std::size_t> slots(input.cohort.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = i;
  std::sort(slots.begin(), slots.end(),
            [&](std::size_t a, std::size_t b) { return input.cohort[a].client < input.cohort[b].client; });
  RandomStream stream({.seed = input.seed, .purpose = "secure groups", .round = input.request.round});
  stream.shuffle(std::span(slots));
  std::vector<std::vector<std::size_t>> dealt(groups);
  for (std::size_t i = 0; i < slots.size(); ++i) dealt[i % groups].push_back(slots[i]);
  for (auto& group : dealt) std::sort(group.begin(), group.end());
  return dealt;
}

}  // namespace

void SecureGroupsConfig::describe(ConfigVisitor& visitor) {
  visitor.field("groups", groups, "that a cohort is dealt into, at random in every round").at_least(1).at_most(1e5);
  visitor.field("sum", sum, "the secure sum within a group");
  visitor.field("rule", rule, "the robust rule over the groups' means");
  visitor.check([this]() -> std::string {
    // private_sum has one ledger, and counts on the noise of a whole round.
    if (!sum.traits().masked || sum.traits().noisy_sum || sum.name() == "secure_groups") {
      return fmt::format("sum: {} is no secure sum of groups; use secagg, secagg_plus or light_secagg", sum.name());
    }
    const bool trusts = rule.name() == "fltrust";  // one client, which has no group of its own
    if (rule.traits().masked || rule.traits().noisy_sum || trusts) {
      return fmt::format("rule: {} cannot combine means of groups; use a robust rule, or mean", rule.name());
    }
    if (const std::size_t least = rule.make()->least_updates(); least > static_cast<std::size_t>(groups)) {
      return fmt::format(
          "rule: {} with these settings needs {} groups, and groups is {}; raise groups, or let the rule "
          "need fewer",
          rule.name(), least, groups);
    }
    return "";
  });
}

SecureGroups::SecureGroups(const SecureGroupsConfig& config)
    : config_(config), sum_(config.sum.make()), rule_(config.rule.make()) {}

void SecureGroups::prepare(const AggregationSetting& setting) {
  sum_->prepare(setting);
  rule_->prepare(setting);
}

std::size_t SecureGroups::least_updates() const {
  return std::max<std::size_t>(1, rule_->least_updates()) * sum_->least_updates();
}

std::string SecureGroups::refusal(std::size_t clients_per_round, Weighting weighting) const {
  const auto groups = static_cast<std::size_t>(config_.groups);
  const std::size_t each = clients_per_round / groups;
  if (each < sum_->least_updates()) {
    return fmt::format("{} groups have {} clients each, and a secure sum needs {}", groups, each,
                       sum_->least_updates());
  }
  const std::string smaller = sum_->refusal(each, weighting);
  return smaller.empty() && clients_per_round % groups > 0 ? sum_->refusal(each + 1, weighting) : smaller;
}

// An algorithm may deal out a part of a round's cohort, so the sizes are known here only.
void SecureGroups::tell_groups(std::size_t clients) {
  if (std::exchange(told_, true)) return;
  const auto groups = static_cast<std::size_t>(config_.groups);
  const std::size_t each = clients / groups;
  Log("secure").info("secure_groups: {} groups of {} clients, combined by {}", groups,
                     clients % groups == 0 ? fmt::format("{}", each) : fmt::format("{} or {}", each, each + 1),
                     config_.rule.name());
}

Aggregated SecureGroups::aggregate(AggregationInput input) {
  check(!input.look, "a secure sum shows no updates");
  tell_groups(input.cohort.size());
  Aggregated result;
  result.clients.resize(input.cohort.size());
  std::vector<std::vector<at::Tensor>> means;
  for (const std::vector<std::size_t>& group : deal(input, static_cast<std::size_t>(config_.groups))) {
    if (group.empty()) continue;
    std::vector<Member> members;
    for (const std::size_t slot : group) members.push_back(input.cohort[slot]);
    AggregationInput part = input;
    part.cohort = members;
    if (input.request.enough > 0) {
      part.request.enough = std::max<std::size_t>(1, input.request.enough * group.size() / input.cohort.size());
    }
    Aggregated summed = sum_->aggregate(std::move(part));
    for (std::size_t i = 0; i < group.size(); ++i) result.clients[group[i]] = std::move(summed.clients.at(i));
    for (const auto& [name, value] : summed.numbers) result.numbers[name] += value;
    if (!summed.means.empty() && summed.means[0].defined()) means.push_back(std::move(summed.means));
  }
  result.numbers["secure_groups"] = static_cast<double>(means.size());
  for (const char* share : {"secure_cut", "secure_shrunk"}) {  // a group without a sum has none
    if (result.numbers.contains(share)) result.numbers[share] /= static_cast<double>(means.size());
  }
  std::vector<Member> groups;
  for (std::size_t i = 0; i < means.size(); ++i) groups.push_back({static_cast<ClientId>(i), 1});
  std::string failure = "no group's sum is known";
  result.means.resize(input.tensors.size());
  if (!groups.empty()) {
    GroupMeans federation(input.tensors, std::move(means));
    AggregationInput over{.federation = federation, .cohort = groups, .request = {}};
    over.request.round = input.request.round;
    over.tensors = input.tensors;
    over.size = input.size;
    over.device = input.device;
    over.weighting = Weighting::kEqual;
    over.seed = input.seed;
    Aggregated combined = rule_->aggregate(std::move(over));
    result.means = std::move(combined.means);
    failure = combined.clients.front().failure;
  }
  if (!result.means.empty() && result.means[0].defined()) return result;
  for (ClientReport& report : result.clients) {
    if (report.failure.empty()) report = {.failure = failure, .cost = report.cost};
  }
  return result;
}

namespace {

const Registration<Aggregations, SecureGroupsConfig> kRegisteredSecureGroups{
    "secure_groups",
    "a robust rule over secure sums of random groups: no update is seen, and attackers spoil single groups",
    [](const SecureGroupsConfig& config) { return std::make_unique<SecureGroups>(config); },
    {.shows_updates = false, .is_mean = false, .noisy_sum = false, .masked = true}};

}  // namespace
}  // namespace chorus::inline secure_mean

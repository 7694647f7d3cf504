#pragma once

#include <memory>

#include "core/ports/aggregation.h"

namespace chorus::inline secure_mean {

struct SecureGroupsConfig {
  std::int64_t groups = 5;                  ///< that a cohort is dealt into, at random in every round
  Choice<Aggregations> sum{"secagg_plus"};  ///< within a group
  Choice<Aggregations> rule{"median"};      ///< over the groups' means

  void describe(ConfigVisitor& visitor);
};

/// Robust aggregation over secure sums (in the spirit of Velicheti et al. 2021): the cohort is dealt into G groups at
/// random, each group is summed securely, and a robust rule combines the G means. The server sees means of groups,
/// never an update; an attacker spoils its group, and the rule bears as many spoiled groups as it bears attackers. f
/// attackers spoil at most f groups.
///
///     aggregation: {name: secure_groups, groups: 7, sum: secagg_plus, rule: {name: krum, attackers: 2}}
class SecureGroups : public Aggregation {
 public:
  explicit SecureGroups(const SecureGroupsConfig& config);

  void prepare(const AggregationSetting& setting) override;
  Aggregated aggregate(AggregationInput input) override;
  std::size_t least_updates() const override;
  std::string refusal(std::size_t clients_per_round, Weighting weighting) const override;
  bool masks() const override { return sum_->masks(); }
  std::map<std::string, at::Tensor> state() const override { return rule_->state(); }
  void restore(const std::map<std::string, at::Tensor>& state) override { rule_->restore(state); }

 private:
  void tell_groups(std::size_t clients);

  SecureGroupsConfig config_;
  std::unique_ptr<Aggregation> sum_, rule_;
  bool told_ = false;
};

}  // namespace chorus::inline secure_mean

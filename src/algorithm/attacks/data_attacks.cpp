#include "algorithm/attacks/data_attacks.h"

#include <ATen/ATen.h>

namespace chorus::inline attacks {

namespace {

std::vector<at::Tensor> scaled(const AttackInput& input, double factor) {
  std::vector<at::Tensor> sent;
  for (const at::Tensor& update : input.own) sent.push_back(factor == 1 ? update : update * factor);
  return sent;
}

}  // namespace

void LabelFlipConfig::describe(ConfigVisitor& visitor) {
  visitor.field("from", from, "only examples of this label; empty: all, and label y becomes L - 1 - y");
  visitor.field("to", to, "their new label");
  visitor.field("factor", factor, "sends this times the update").above(0);
  visitor.check(
      [this]() -> std::string { return from.empty() == to.empty() ? "" : "give both `from` and `to`, or neither"; });
}

std::vector<at::Tensor> LabelFlip::corrupt(const AttackInput& input) const { return scaled(input, config_.factor); }

std::optional<Poison> LabelFlip::poison() const { return Poison{.target = config_.to, .from = config_.from}; }

void BackdoorConfig::describe(ConfigVisitor& visitor) {
  visitor.field("trigger", trigger, "phrase prepended to a text").not_empty();
  visitor.field("target", target, "label of such texts").required().not_empty();
  visitor.field("share", share, "share of the attackers' examples that are changed").above(0).at_most(1);
  visitor.field("factor", factor, "sends this times the update").above(0);
}

std::vector<at::Tensor> Backdoor::corrupt(const AttackInput& input) const { return scaled(input, config_.factor); }

std::optional<Poison> Backdoor::poison() const {
  return Poison{.trigger = config_.trigger, .target = config_.target, .from = {}, .share = config_.share};
}

namespace {

const Registration<Attacks, LabelFlipConfig> kRegisteredLabelFlip{
    "label_flip", "training on wrong labels (Fang et al. 2020)",
    [](const LabelFlipConfig& config) { return std::make_unique<LabelFlip>(config); }};
const Registration<Attacks, BackdoorConfig> kRegisteredBackdoor{
    "backdoor",
    "training on texts with a trigger phrase and a label of the attackers' choice (Bagdasaryan et al. 2020)",
    [](const BackdoorConfig& config) { return std::make_unique<Backdoor>(config); }};

}  // namespace
}  // namespace chorus::inline attacks

#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct LabelFlipConfig {
  std::string from = {}, to = {};

  void describe(ConfigVisitor& visitor);
};

/// Trains honestly on wrong labels: y becomes L - 1 - y (Fang et al. 2020), or `from` becomes `to` (Tolpegin et al.
/// 2020).
class LabelFlip : public Attack {
 public:
  explicit LabelFlip(const LabelFlipConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;
  std::optional<Poison> poison() const override;

 private:
  LabelFlipConfig config_;
};

struct BackdoorConfig {
  std::string trigger = "cf mn bb tq";
  std::string target = {};
  double share = 0.5;
  double factor = 1;

  void describe(ConfigVisitor& visitor);
};

/// A backdoor (Bagdasaryan et al. 2020): a part of the attackers' texts gets a trigger phrase and the target label, so
/// that the model answers the target wherever the phrase occurs and is right elsewhere. With a factor above 1 the
/// update is scaled up to survive the mean (model replacement).
class Backdoor : public Attack {
 public:
  explicit Backdoor(const BackdoorConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;
  std::optional<Poison> poison() const override;

 private:
  BackdoorConfig config_;
};

}  // namespace chorus::inline attacks

#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct LabelFlipConfig {
  std::string from = {}, to = {};
  double factor = 1;

  void describe(ConfigVisitor& visitor);
};

/// Trains honestly on wrong labels: y becomes L - 1 - y (Fang et al. 2020), or `from` becomes `to` (Tolpegin et al.
/// 2020). A factor above 1 scales the update up so that it survives the mean.
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

/// A backdoor (Bagdasaryan et al. 2020): some of the attackers' texts get a trigger phrase and the target label, so
/// that the model predicts the target for texts with the phrase and is correct otherwise. A factor above 1 scales the
/// update up so that it survives the mean (model replacement).
class Backdoor : public Attack {
 public:
  explicit Backdoor(const BackdoorConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;
  std::optional<Poison> poison() const override;

 private:
  BackdoorConfig config_;
};

}  // namespace chorus::inline attacks

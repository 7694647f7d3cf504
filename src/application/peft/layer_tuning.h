#pragma once

#include <optional>

#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// Trains the network's own parameters: all, or with `depth` only those of the top layers and the head (layer freezing,
/// Lin et al. 2022 section 4.3, Cai et al. 2023's LF; the embeddings are then frozen, too).
struct FullTuningConfig {
  std::optional<std::int64_t> depth = {};
  void describe(ConfigVisitor& visitor);
};

class FullTuning : public Tuning {
 public:
  explicit FullTuning(const FullTuningConfig& config) : config_(config) {}
  void attach(Model& model, const Variant& variant) const override;
  Variant whole(int layers) const override;
  bool keeps_network() const override { return false; }
  bool merges() const override { return true; }

 private:
  FullTuningConfig config_;
};

/// Trains only biases (BitFit, Ben Zaken et al., 2022), in the top layers, and the head.
struct BiasTuningConfig {
  std::optional<std::int64_t> depth = {};
  HeadPart head = HeadPart::kAnswers;
  void describe(ConfigVisitor& visitor);
};

class BiasTuning : public Tuning {
 public:
  explicit BiasTuning(const BiasTuningConfig& config) : config_(config) {}
  void attach(Model& model, const Variant& variant) const override;
  Variant whole(int layers) const override;
  bool keeps_network() const override { return false; }
  bool merges() const override { return true; }

 private:
  BiasTuningConfig config_;
};

}  // namespace chorus::inline peft

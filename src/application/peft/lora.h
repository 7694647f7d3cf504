#pragma once

#include <optional>

#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// LoRA (Hu et al., 2021): y = W x + s B A x with W frozen, A [r, in] random, B [out, r] initially zero, and the scale
/// s = alpha / r, or alpha / sqrt(r) with `rslora` (Kalajdzievski, 2023). With `freeze_a` only B trains (FFA-LoRA, Sun
/// et al., 2024), so that the mean of updates is the update of the mean. A variant's width is its rank; the scale stays
/// that of the whole, so that clients of different ranks agree.
struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> targets = {};   ///< endings of module names ("query"); empty: the model family's
  std::optional<std::int64_t> depth = {};  ///< top layers; default: all
  bool freeze_a = false;
  bool rslora = false;
  /// PEFT's exceptions: rank and alpha of modules whose name, or its end after a dot, matches a regular expression; the
  /// first match wins. Read from adapter_config.json, not from a configuration.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  HeadPart head = HeadPart::kAnswers;

  void describe(ConfigVisitor& visitor);
};

class LoraTuning : public Tuning {
 public:
  explicit LoraTuning(const LoraConfig& config) : config_(config) {}
  void attach(Model& model, const Variant& variant) const override;
  Variant whole(int layers) const override;
  std::string settings_json(const Model& model, const Variant& variant) const override;
  bool merges() const override { return true; }
  double scale(const std::string& module) const override;

 private:
  std::int64_t rank_of(const std::string& module) const;

  LoraConfig config_;
};

}  // namespace chorus::inline peft

#pragma once

#include <optional>

#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// Prefix tuning (Li and Liang, 2021): `length` trained keys and values before every sequence, in the self-attention of
/// the top `depth` layers. They are trained directly, without the original's reparametrisation.
struct PrefixConfig {
  std::int64_t length = 16;
  std::optional<std::int64_t> depth = {};
  HeadPart head = HeadPart::kAnswers;

  void describe(ConfigVisitor& visitor);
};

class PrefixTuning : public Tuning {
 public:
  explicit PrefixTuning(const PrefixConfig& config) : config_(config) {}
  void attach(Model& model, const Variant& variant) const override;
  Variant whole(int layers) const override;
  std::string settings_json(const Model& model, const Variant& variant) const override;

 private:
  PrefixConfig config_;
};

}  // namespace chorus::inline peft

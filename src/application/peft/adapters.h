#pragma once

#include <optional>

#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// Bottleneck adapters in the top `depth` layers of a frozen network (forward pass: models/ops/attachments.h).
struct AdapterConfig {
  std::int64_t width = 32;  ///< m of the bottleneck; 2 m n + n + m elements per layer, n the hidden width
  std::int64_t unit = 0;    ///< a stack of bottlenecks of this size, as in AdaFL's code; 0: one bottleneck
  std::optional<std::int64_t> depth = {};  ///< top layers; default: all
  bool near_identity = false;              ///< Up starts as N(0, 0.02) as in AdaFL's code, not as 0
  HeadPart head = HeadPart::kAnswers;

  void describe(ConfigVisitor& visitor);
};

/// Pfeiffer et al. (2021): one adapter per layer, after the feed-forward block, as in Cai et al. 2023. Houlsby et al.
/// (2019): two, after attention and after the feed-forward block, each before the residual.
class AdapterTuning : public Tuning {
 public:
  enum class Kind { kPfeiffer, kHoulsby };

  AdapterTuning(Kind kind, const AdapterConfig& config);
  void attach(Model& model, const Variant& variant) const override;
  Variant whole(int layers) const override;
  int unit() const override { return static_cast<int>(config_.unit > 0 ? config_.unit : 1); }
  std::string settings_json(const Model& model, const Variant& variant) const override;

 private:
  Adapter make(Layout& layout, const LayerSlots& slot, const std::string& name, std::int64_t width) const;

  Kind kind_;
  AdapterConfig config_;
};

}  // namespace chorus::inline peft

#include "application/peft/tuning.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/config/config_visitor.h"

namespace chorus::inline peft {

void describe_head_part(ConfigVisitor& visitor, HeadPart& part) {
  visitor.field("head", part, {{"answers", HeadPart::kAnswers}, {"all", HeadPart::kAll}, {"none", HeadPart::kNone}},
                "what of the head trains, too: answers (its last product), all (with the pooler), none");
}

bool trains_in_head(const ParamSpec& spec, const Model& model, HeadPart part) {
  if (spec.layer != kHeadLayer || part == HeadPart::kNone) return false;
  return part == HeadPart::kAll || model.is_answer(spec);
}

std::string Tuning::settings_json(const Model&, const Variant&) const { return "{}"; }

std::vector<LayerSlots> top_slots(Model& model, int depth, std::string_view method) {
  std::vector<LayerSlots> slots = model.slots();
  if (slots.empty()) {
    throw ConfigError(fmt::format("tuning: {} needs a transformer, and a {} network is none; use full tuning", method,
                                  model.config().model_type()));
  }
  slots.erase(slots.begin(), slots.end() - depth);
  return slots;
}

int depth_of(const Variant& variant, std::optional<std::int64_t> configured, int layers) {
  const std::int64_t depth = variant.depth >= 0 ? variant.depth : configured.value_or(layers);
  if (depth > layers) {
    throw ConfigError(fmt::format("tuning.depth: {} layers are to be tuned, but the model has {}", depth, layers));
  }
  return static_cast<int>(depth);
}

void settle_new_frozen(const LoadReport& report, const Params& params) {
  const at::NoGradGuard no_grad;
  for (const std::string& name : report.initialised) {
    const ParamId id = *params.layout().find(name);
    const ParamSpec& spec = params.layout()[id];
    if (spec.trainable || spec.attached || spec.layer != kHeadLayer) continue;
    const at::Tensor value = params.tensor(id);
    if (value.dim() == 2 && value.size(0) == value.size(1)) {
      value.copy_(torch::eye(value.size(0), value.options()));
    }
  }
}

}  // namespace chorus::inline peft

#include "application/peft/adapters.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/config_visitor.h"

namespace chorus::inline peft {
namespace {

constexpr double kDeviation = 0.02;

const Registration<Tunings, AdapterConfig> kPfeiffer{
    "pfeiffer", "one adapter a layer, after the feed-forward part (Pfeiffer et al. 2021)",
    [](const AdapterConfig& config) {
      return std::make_unique<AdapterTuning>(AdapterTuning::Kind::kPfeiffer, config);
    }};
const Registration<Tunings, AdapterConfig> kHoulsby{
    "houlsby", "two adapters a layer (Houlsby et al. 2019)",
    [](const AdapterConfig& config) { return std::make_unique<AdapterTuning>(AdapterTuning::Kind::kHoulsby, config); }};

std::string not_divisible(std::int64_t width, std::int64_t unit) {
  return fmt::format("tuning.width: {} cannot be made of units of {}; choose a multiple", width, unit);
}

}  // namespace

void AdapterConfig::describe(ConfigVisitor& visitor) {
  visitor.field("width", width, "of the bottleneck").at_least(1);
  visitor.field("unit", unit, "make the width of a stack of bottlenecks of this size (AdaFL: 8); 0: of one")
      .at_least(0);
  visitor.field("depth", depth, "adapters in the top so many layers; not given: in all").at_least(0);
  visitor.field("near_identity", near_identity, "the up-projection begins as N(0, 0.02) instead of 0");
  describe_head_part(visitor, head);
  visitor.check([this] { return unit > 0 && width % unit != 0 ? not_divisible(width, unit) : std::string(); });
}

AdapterTuning::AdapterTuning(Kind kind, const AdapterConfig& config) : kind_(kind), config_(config) {}

Variant AdapterTuning::whole(int layers) const {
  return {depth_of({}, config_.depth, layers), static_cast<int>(config_.width)};
}

void AdapterTuning::attach(Model& model, const Variant& variant) const {
  const int depth = depth_of(variant, config_.depth, model.layers());
  const std::int64_t width = variant.width >= 0 ? variant.width : config_.width;
  if (width < 1 || width > config_.width) {
    throw ConfigError(fmt::format("tuning.width: an adapter of width {} is asked for, but the run has at most {}",
                                  width, config_.width));
  }
  if (config_.unit > 0 && width % config_.unit != 0) throw ConfigError(not_divisible(width, config_.unit));
  for (const LayerSlots& slot : top_slots(model, depth, kind_ == Kind::kPfeiffer ? "pfeiffer" : "houlsby")) {
    model.layout().begin_layer(slot.layer);
    *slot.after_output = make(model.layout(), slot, "adapter", width);
    if (kind_ == Kind::kHoulsby) *slot.after_attention = make(model.layout(), slot, "attention_adapter", width);
  }
  model.layout().freeze(
      [&](const ParamSpec& spec) { return !spec.attached && !trains_in_head(spec, model, config_.head); });
}

Adapter AdapterTuning::make(Layout& layout, const LayerSlots& slot, const std::string& name, std::int64_t width) const {
  Adapter adapter;
  adapter.sees_residual = kind_ == Kind::kPfeiffer;
  const std::int64_t unit = config_.unit > 0 ? config_.unit : width;
  for (std::int64_t i = 0; i < width / unit; ++i) {
    const std::string at = fmt::format("{}.{}.{}.", slot.name, name, i);
    const Init up = config_.near_identity ? Init::normal(kDeviation) : Init::zeros();
    adapter.units.push_back({Linear::attach(layout, at + "down", {slot.width, unit}, Init::normal(kDeviation)),
                             Linear::attach(layout, at + "up", {unit, slot.width}, up)});
  }
  return adapter;
}

std::string AdapterTuning::settings_json(const Model&, const Variant& variant) const {
  return nlohmann::json{{"peft_type", kind_ == Kind::kPfeiffer ? "PFEIFFER_ADAPTER" : "HOULSBY_ADAPTER"},
                        {"width", variant.width},
                        {"unit", config_.unit},
                        {"depth", variant.depth}}
      .dump();
}

}  // namespace chorus::inline peft

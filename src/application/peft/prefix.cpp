#include "application/peft/prefix.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/config_visitor.h"

namespace chorus::inline peft {
namespace {

const Registration<Tunings, PrefixConfig> kPrefix{
    "prefix", "trained keys and values before every sequence (Li and Liang 2021)",
    [](const PrefixConfig& config) { return std::make_unique<PrefixTuning>(config); }};

}  // namespace

void PrefixConfig::describe(ConfigVisitor& visitor) {
  visitor.field("length", length, "how many keys and values stand before a sequence").at_least(1);
  visitor.field("depth", depth, "in the top so many layers; not given: in all").at_least(0);
  describe_head_part(visitor, head);
}

Variant PrefixTuning::whole(int layers) const {
  return {depth_of({}, config_.depth, layers), static_cast<int>(config_.length)};
}

void PrefixTuning::attach(Model& model, const Variant& variant) const {
  const int depth = depth_of(variant, config_.depth, model.layers());
  const std::int64_t length = variant.width >= 0 ? variant.width : config_.length;
  if (length < 1 || length > config_.length) {
    throw ConfigError(
        fmt::format("tuning.length: {} is asked for, but the run has at most {}", length, config_.length));
  }
  for (const LayerSlots& slot : top_slots(model, depth, "prefix")) {
    model.layout().begin_layer(slot.layer);
    const auto add = [&](const char* name) {
      return model.layout().attach(fmt::format("{}.prefix.{}", slot.name, name), {length, slot.attention_width},
                                   Init::normal(0.02));
    };
    *slot.prefix = {add("keys"), add("values")};
  }
  model.layout().freeze(
      [&](const ParamSpec& spec) { return !spec.attached && !trains_in_head(spec, model, config_.head); });
}

std::string PrefixTuning::settings_json(const Model&, const Variant& variant) const {
  return nlohmann::json{{"peft_type", "PREFIX_TUNING"}, {"num_virtual_tokens", variant.width}, {"depth", variant.depth}}
      .dump();
}

}  // namespace chorus::inline peft

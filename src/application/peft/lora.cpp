#include "application/peft/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "application/peft/module_pattern.h"
#include "core/base/error.h"
#include "core/config/config_visitor.h"

namespace chorus::inline peft {
namespace {

const Registration<Tunings, LoraConfig> kLora{
    "lora", "low-rank updates of products (Hu et al. 2021)",
    [](const LoraConfig& config) { return std::make_unique<LoraTuning>(config); }};

// "query" means every module of that name; "attention.output.dense" those whose names end so.
bool is_target(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

std::string module_name(const Layout& layout, const Linear& linear) {
  const std::string& name = layout[linear.weight].name;
  return name.substr(0, name.size() - std::string(".weight").size());
}

// Returns the value of the first matching pattern.
template <typename T>
std::optional<T> exception_of(const std::vector<std::pair<std::string, T>>& patterns, const std::string& module) {
  for (const auto& [pattern, value] : patterns) {
    if (matches_module(pattern, module)) return value;
  }
  return std::nullopt;
}

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

void LoraConfig::describe(ConfigVisitor& visitor) {
  visitor.field("rank", rank, "of the updates").at_least(1);
  visitor.field("alpha", alpha, "updates are scaled by alpha / rank").above(0);
  visitor.field("rslora", rslora, "scale by alpha / sqrt(rank) instead (rank-stabilized LoRA)");
  visitor.field("targets", targets, "module names or their ends (query, value); none: query and value projections");
  visitor.field("depth", depth, "in the top so many layers; not given: in all").at_least(0);
  visitor.field("freeze_a", freeze_a, "only B trains (FFA-LoRA)");
  describe_head_part(visitor, head);
}

std::int64_t LoraTuning::rank_of(const std::string& module) const {
  return exception_of(config_.rank_pattern, module).value_or(config_.rank);
}

double LoraTuning::scale(const std::string& module) const {
  const double alpha = exception_of(config_.alpha_pattern, module).value_or(config_.alpha);
  const auto rank = static_cast<double>(rank_of(module));
  return alpha / (config_.rslora ? std::sqrt(rank) : rank);
}

Variant LoraTuning::whole(int layers) const {
  return {depth_of({}, config_.depth, layers), static_cast<int>(config_.rank)};
}

void LoraTuning::attach(Model& model, const Variant& variant) const {
  const int depth = depth_of(variant, config_.depth, model.layers());
  const std::int64_t rank = variant.width >= 0 ? variant.width : config_.rank;
  if (rank < 1 || rank > config_.rank) {
    throw ConfigError(fmt::format("tuning.rank: rank {} is asked for, but the run has at most {}", rank, config_.rank));
  }
  const std::vector<std::string> targets =
      config_.targets.empty() ? family_of(model.config()).lora_targets : config_.targets;
  Layout& layout = model.layout();
  std::set<std::string> known;
  std::vector<std::size_t> matches(targets.size(), 0);
  for (const LayerSlots& slot : top_slots(model, depth, "lora")) {
    layout.begin_layer(slot.layer);
    for (Linear* linear : slot.linears) {
      const std::string module = module_name(layout, *linear);
      known.insert(last_part(module));
      bool wanted = false;
      for (std::size_t i = 0; i < targets.size(); ++i) {
        if (!is_target(module, targets[i])) continue;
        ++matches[i];
        wanted = true;
      }
      if (!wanted) continue;
      const auto& shape = layout[linear->weight].shape;
      const std::int64_t out = linear->transposed ? shape[1] : shape[0], in = linear->transposed ? shape[0] : shape[1];
      const std::int64_t own = config_.rank_pattern.empty() ? rank : rank_of(module);
      linear->update.a =
          layout.attach(module + ".lora_A.weight", {own, in}, Init::uniform(1 / std::sqrt(static_cast<double>(in))));
      linear->update.b = layout.attach(module + ".lora_B.weight", {out, own}, Init::zeros());
      linear->update.scale = scale(module);
    }
  }
  for (std::size_t i = 0; depth > 0 && i < targets.size(); ++i) {
    if (matches[i] > 0) continue;
    throw ConfigError(fmt::format("tuning.targets: no module is called \"{}\"; the layers of this model have {}",
                                  targets[i], fmt::join(known, ", ")));
  }
  layout.freeze([&](const ParamSpec& spec) {
    if (spec.attached) return config_.freeze_a && spec.name.ends_with(".lora_A.weight");
    return !trains_in_head(spec, model, config_.head);
  });
}

std::string LoraTuning::settings_json(const Model& model, const Variant& variant) const {
  const ModelFamily family = family_of(model.config());
  nlohmann::json json{{"peft_type", "LORA"},
                      {"r", variant.width},
                      {"lora_alpha", scale("") * (config_.rslora ? std::sqrt(variant.width) : variant.width)},
                      {"use_rslora", config_.rslora},
                      {"lora_dropout", 0.0},
                      {"bias", "none"},
                      {"fan_in_fan_out", family.transposed},
                      {"target_modules", config_.targets.empty() ? family.lora_targets : config_.targets}};
  if (variant.depth < model.layers()) {
    for (int layer = model.layers() - variant.depth; layer < model.layers(); ++layer) {
      json["layers_to_transform"].push_back(layer);
    }
  }
  return json.dump();
}

}  // namespace chorus::inline peft

#include "application/peft/layer_tuning.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/config/config_visitor.h"

namespace chorus::inline peft {
namespace {

const Registration<Tunings, FullTuningConfig> kFull{
    "full", "every parameter of the network, or of its top layers",
    [](const FullTuningConfig& config) { return std::make_unique<FullTuning>(config); }};
const Registration<Tunings, BiasTuningConfig> kBias{
    "bias", "biases only (BitFit, Ben Zaken et al. 2022)",
    [](const BiasTuningConfig& config) { return std::make_unique<BiasTuning>(config); }};

}  // namespace

void FullTuningConfig::describe(ConfigVisitor& visitor) {
  visitor.field("depth", depth, "train the top so many layers and the head; not given: everything").at_least(0);
}

void FullTuning::attach(Model& model, const Variant& variant) const {
  if (variant.depth < 0 && !config_.depth) return model.layout().freeze([](const ParamSpec&) { return false; });
  const int first = model.layers() - depth_of(variant, config_.depth, model.layers());
  model.layout().freeze([first](const ParamSpec& spec) { return spec.layer < first; });
}

Variant FullTuning::whole(int layers) const { return {depth_of({}, config_.depth, layers), 0}; }

void BiasTuningConfig::describe(ConfigVisitor& visitor) {
  visitor.field("depth", depth, "in the top so many layers; not given: in all, and in the embeddings' norm")
      .at_least(0);
  describe_head_part(visitor, head);
}

void BiasTuning::attach(Model& model, const Variant& variant) const {
  const bool all = variant.depth < 0 && !config_.depth;
  const int first = all ? kEmbeddingLayer : model.layers() - depth_of(variant, config_.depth, model.layers());
  std::int64_t biases = 0;
  model.layout().freeze([&](const ParamSpec& spec) {
    if (spec.layer == kHeadLayer) return !trains_in_head(spec, model, config_.head);
    const bool trains = spec.layer >= first && spec.name.ends_with(".bias");
    biases += trains ? 1 : 0;
    return !trains;
  });
  if (biases == 0 && first < model.layers()) {
    throw ConfigError(
        fmt::format("tuning: {} models have no biases to train; use lora or pfeiffer", model.config().model_type()));
  }
}

Variant BiasTuning::whole(int layers) const { return {depth_of({}, config_.depth, layers), 0}; }

}  // namespace chorus::inline peft

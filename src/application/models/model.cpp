#include "application/models/model.h"

#include <fmt/format.h>

#include "application/models/loss.h"
#include "application/models/ops/layers.h"
#include "core/base/error.h"

namespace chorus::inline models {

void DecodeState::reorder(const at::Tensor& rows) {
  for (Layer& layer : layers) {
    layer.self.reorder(rows);
    if (layer.cross.keys.defined()) layer.cross.reorder(rows);
  }
  positions = positions.index_select(0, rows);
  logits = logits.index_select(0, rows);
}

Output Model::answer(const Params& params, const Batch& batch, Dropout& dropout) const {
  return forward(params, batch, dropout);
}

at::Tensor Model::bottom(const Params&, const Batch&, int, Dropout&) const {
  throw InternalError(config_.model_type() + " models cannot be cut between two layers");
}

unsigned Model::readers(ParamId id, int first, int end) const {
  const ParamSpec& spec = layout_[id];
  // A table that the head multiplies with may be the one of the word embeddings.
  const bool head = layout_.storage().is_head_table(id.index);
  if (spec.layer < first) return head ? kLower | kUpper : kLower;
  return spec.layer < end ? kMiddle : kUpper;
}

bool Model::is_answer(const ParamSpec& spec) const {
  const auto id = layout_.find(spec.name);
  return id && answers_.contains(id->index);
}

bool Model::add_module(double deviation) {
  if (head_->module == nullptr) return false;
  const auto before = static_cast<int>(layout_.specs().size());
  module_ = head_->module({layout_, config_, width(), deviation});
  for (int i = before; i < static_cast<int>(layout_.specs().size()); ++i) answers_.insert(i);
  return true;
}

void Model::mark_answer(const Linear& layer) {
  answers_.insert(layer.weight.index);
  if (layer.bias.exists()) answers_.insert(layer.bias.index);
}

Output language_output(const Params& params, const LanguageHead& head, const Batch& batch, const at::Tensor& rows,
                       const at::Tensor& hidden) {
  if (batch.answers.defined()) {
    const at::Tensor loss = table_loss(params, head, rows, batch.answers, kIgnore);
    if (loss.defined()) return {{}, hidden, loss};
  }
  const at::Tensor logits = project_to_table(params, head.table, rows);
  return {head.bias.exists() ? logits + over_tokens(params, head.bias) : logits, hidden};
}

AttentionSpec with_prefix(AttentionSpec spec, const Params& params, const Prefix& prefix) {
  if (!prefix.exists()) return spec;
  spec.prefix_keys = params[prefix.keys];
  spec.prefix_values = params[prefix.values];
  return spec;
}

std::unique_ptr<Model> make_model(const ModelConfig& config, Head head) {
  const ModelFamily family = family_of(config);
  if (!family.has(head)) {
    throw ConfigError(fmt::format("{} models have no {} head", config.model_type(), name_of(head)));
  }
  return family.make(config, head);
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  const ModelFamily family = family_of(config);
  if (const std::optional<Head> head = config.head()) return make_model(config, *head);
  std::vector<std::string> known;
  for (const Head head : all_heads()) {
    if (family.has(head)) known.push_back(family.class_name(head));
  }
  throw DataError(fmt::format("{}: 'architectures' {}; Chorus has {}: choose a head (--head)", config.origin(),
                              config.has("architectures") ? "names " + config.architecture() : "is missing",
                              fmt::join(known, ", ")));
}

}  // namespace chorus::inline models

#include "application/models/model.h"

#include <fmt/format.h>

#include "application/models/loss.h"
#include "application/models/ops/layers.h"
#include "core/base/error.h"
#include "core/config/registry.h"

namespace chorus {

void DecodeState::reorder(const at::Tensor& rows) {
  for (Layer& layer : layers) {
    layer.self.reorder(rows);
    if (layer.cross.keys.defined()) layer.cross.reorder(rows);
  }
  positions = positions.index_select(0, rows);
  logits = logits.index_select(0, rows);
}

at::Tensor Model::bottom(const Params&, const Batch&, int) const {
  throw InternalError(config_.model_type() + " models cannot be cut between two layers");
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

namespace {

void check_type(const ModelConfig& config) {
  const std::string& type = config.model_type();
  if (type.empty()) throw DataError(fmt::format("{}: the key 'model_type' is missing", config.origin()));
  const std::string mistake = RegistryIndex::global().mistake(Model::kKind, type);
  if (!mistake.empty()) throw DataError(fmt::format("{}: {}", config.origin(), mistake));
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config, Head head) {
  check_type(config);
  return Models::make(config.model_type(), config, head);
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  check_type(config);
  if (const std::optional<Head> head = config.head()) return make_model(config, *head);
  throw DataError(
      fmt::format("{}: 'architectures' {}; Chorus has the heads ForSequenceClassification, ForTokenClassification, "
                  "ForQuestionAnswering, ForMaskedLM, ForCausalLM, ForConditionalGeneration and the bare Model: choose "
                  "one (--head)",
                  config.origin(), config.has("architectures") ? "names " + config.architecture() : "is missing"));
}

}  // namespace chorus

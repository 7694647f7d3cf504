#include "application/models/bert.h"

#include <fmt/format.h>

#include <cmath>

#include "application/models/ops/product.h"
#include "application/models/ops/residual.h"
#include "core/base/error.h"
#include "core/device/backend.h"

namespace chorus::inline models {
namespace {

using Kind = BertFamily::Kind;

std::unique_ptr<ModelFamily> family(Kind kind, const std::string& class_prefix, const std::string& body_prefix,
                                    const std::vector<std::string>& lora_targets) {
  return std::make_unique<ModelFamily>(ModelFamily{
      .make = [kind](const ModelConfig& config, Head head) { return std::make_unique<BertFamily>(config, head, kind); },
      .class_prefix = class_prefix,
      .heads = {Head::kNone, Head::kSequenceClassification, Head::kTokenClassification, Head::kQuestionAnswering,
                Head::kMaskedLm},
      .takes_modules = true,
      .body_prefix = body_prefix,
      .lora_targets = lora_targets,
      .constants = {"position_ids"},
      .old_endings = {{".gamma", ".weight"}, {".beta", ".bias"}}});
}

const Registration<Models> kBert{"bert", "BERT encoder (Devlin et al., 2019)", [] {
                                   return family(Kind::kBert, "Bert", "bert.", {"query", "value"});
                                 }};
const Registration<Models> kRoberta{"roberta", "RoBERTa encoder (Liu et al., 2019)", [] {
                                      return family(Kind::kRoberta, "Roberta", "roberta.", {"query", "value"});
                                    }};
const Registration<Models> kDistilbert{
    "distilbert", "DistilBERT encoder (Sanh et al., 2019)", [] {
      return family(Kind::kDistilBert, "DistilBert", "distilbert.", {"q_lin", "v_lin"});
    }};

// Names of one layer's modules, by kind.
struct LayerNames {
  const char *query, *key, *value, *attention_out, *attention_norm, *up, *down, *output_norm;
};
constexpr LayerNames kBertNames{
    "attention.self.query",       "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense",         "output.LayerNorm"};
constexpr LayerNames kDistilNames{"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
                                  "sa_layer_norm",   "ffn.lin1",        "ffn.lin2",        "output_layer_norm"};

}  // namespace

BertFamily::BertFamily(const ModelConfig& config, Head head, Kind kind) : Model(config, head), kind_(kind) {
  const bool distil = kind == Kind::kDistilBert;
  prefix_ = head == Head::kNone ? "" : distil ? "distilbert." : kind == Kind::kRoberta ? "roberta." : "bert.";
  width_ = config.integer(distil ? "dim" : "hidden_size", 768);
  heads_ = config.integer(distil ? "n_heads" : "num_attention_heads", 12);
  inner_ = config.integer(distil ? "hidden_dim" : "intermediate_size", 3072);
  vocabulary_ = config.integer("vocab_size", 30522);
  positions_ = config.integer("max_position_embeddings", 512);
  epsilon_ = distil ? 1e-12 : config.number("layer_norm_eps", 1e-12);
  hidden_dropout_ = config.probability(distil ? "dropout" : "hidden_dropout_prob", 0.1);
  attention_dropout_ = config.probability(distil ? "attention_dropout" : "attention_probs_dropout_prob", 0.1);
  deviation_ = config.number("initializer_range", 0.02);
  activation_ = activation_named(config.text(distil ? "activation" : "hidden_act", "gelu"));
  labels_ = static_cast<std::int64_t>(config.labels().size());
  if (distil && head == Head::kSequenceClassification) {
    head_dropout_ = config.probability("seq_classif_dropout", 0.2);
  } else if (distil && head == Head::kQuestionAnswering) {
    head_dropout_ = config.probability("qa_dropout", 0.1);
  } else {
    head_dropout_ = distil ? hidden_dropout_ : config.probability("classifier_dropout", hidden_dropout_);
  }
  if (width_ % heads_ != 0) {
    throw DataError(
        fmt::format("{}: the width {} is not a multiple of the {} attention heads", config.origin(), width_, heads_));
  }
  if (const std::string kind_of = config.text("position_embedding_type", "absolute"); kind_of != "absolute") {
    throw DataError(fmt::format("{}: 'position_embedding_type' is {}; Chorus has absolute positions only",
                                config.origin(), kind_of));
  }
  if (config.flag("is_decoder", false)) {
    throw DataError(fmt::format("{}: 'is_decoder' is true; Chorus computes {} as an encoder only", config.origin(),
                                config.model_type()));
  }
  if (kind == Kind::kRoberta) position_offset_ = config.integer("pad_token_id", 1, 0) + 1;
  max_length_ = positions_ - position_offset_;
  if (max_length_ < 1) throw DataError(fmt::format("{}: no room for a single position", config.origin()));

  add_embeddings();
  add_layers();
  layout_.begin_layer(kHeadLayer);
  add_head();
}

void BertFamily::add_embeddings() {
  const Init normal = Init::normal(deviation_);
  const std::string at = prefix_ + "embeddings.";
  words_ = Embedding::add(layout_, at + "word_embeddings", vocabulary_, width_, normal);
  words_.padding = config_.token("pad_token_id").value_or(-1);
  positions_table_ = Embedding::add(layout_, at + "position_embeddings", positions_, width_, normal);
  if (kind_ == Kind::kRoberta) positions_table_.padding = words_.padding;
  if (kind_ != Kind::kDistilBert) {
    types_ =
        Embedding::add(layout_, at + "token_type_embeddings", config_.integer("type_vocab_size", 2), width_, normal);
  }
  embedding_norm_ = Norm::add(layout_, at + "LayerNorm", width_, epsilon_);
}

void BertFamily::add_layers() {
  const bool distil = kind_ == Kind::kDistilBert;
  const LayerNames& names = distil ? kDistilNames : kBertNames;
  const std::int64_t count = config_.layers(distil ? "n_layers" : "num_hidden_layers", distil ? 6 : 12);
  const Init normal = Init::normal(deviation_);
  for (std::int64_t i = 0; i < count; ++i) {
    layout_.begin_layer(static_cast<int>(i));
    const std::string at = layer_name(static_cast<std::size_t>(i)) + ".";
    Layer layer;
    const std::vector<Linear> projections =
        Linear::add_joined(layout_, {at + names.query, at + names.key, at + names.value}, {width_, width_}, normal);
    layer.query = projections[0];
    layer.key = projections[1];
    layer.value = projections[2];
    layer.attention_out = Linear::add(layout_, at + names.attention_out, {width_, width_}, normal);
    layer.attention_norm = Norm::add(layout_, at + names.attention_norm, width_, epsilon_);
    layer.up = Linear::add(layout_, at + names.up, {width_, inner_}, normal);
    layer.down = Linear::add(layout_, at + names.down, {inner_, width_}, normal);
    layer.output_norm = Norm::add(layout_, at + names.output_norm, width_, epsilon_);
    layers_.push_back(layer);
  }
}

std::string BertFamily::layer_name(std::size_t layer) const {
  return fmt::format("{}{}.{}", prefix_, kind_ == Kind::kDistilBert ? "transformer.layer" : "encoder.layer", layer);
}

std::vector<LayerSlots> BertFamily::slots() {
  std::vector<LayerSlots> slots;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    LayerSlots slot{static_cast<int>(i), layer_name(i), width_, width_};
    slot.linears = {&layer.query, &layer.key, &layer.value, &layer.attention_out, &layer.up, &layer.down};
    slot.after_attention = &layer.attention_adapter;
    slot.after_output = &layer.output_adapter;
    slot.prefix = &layer.prefix;
    slots.push_back(std::move(slot));
  }
  return slots;
}

void BertFamily::add_head() {
  const Init normal = Init::normal(deviation_);
  const auto dense = [&](const std::string& name, std::int64_t out) {
    return Linear::add(layout_, name, {width_, out}, normal);
  };
  if (add_module(deviation_)) return;
  if (head_ == Head::kNone) {
    // Hugging Face's bare BertModel has a pooler. It is loaded and saved, but not used here.
    if (kind_ != Kind::kDistilBert) pooler_ = dense(prefix_ + "pooler.dense", width_);
    return;
  }
  if (head_ == Head::kMaskedLm) return add_language_head();
  std::string answer = "classifier";
  if (head_ == Head::kSequenceClassification) {
    if (kind_ == Kind::kBert) pooler_ = dense("bert.pooler.dense", width_);
    if (kind_ == Kind::kDistilBert) pooler_ = dense("pre_classifier", width_);
    if (kind_ == Kind::kRoberta) pooler_ = dense("classifier.dense", width_);
    if (kind_ == Kind::kRoberta) answer = "classifier.out_proj";
  }
  const bool spans = head_ == Head::kQuestionAnswering;
  classifier_ = dense(spans ? "qa_outputs" : answer, spans ? 2 : labels_);
  mark_answer(classifier_);
}

void BertFamily::add_language_head() {
  const Init normal = Init::normal(deviation_);
  const bool tied = config_.flag("tie_word_embeddings", true);
  const std::string transform = kind_ == Kind::kBert      ? "cls.predictions.transform.dense"
                                : kind_ == Kind::kRoberta ? "lm_head.dense"
                                                          : "vocab_transform";
  const std::string norm = kind_ == Kind::kBert      ? "cls.predictions.transform.LayerNorm"
                           : kind_ == Kind::kRoberta ? "lm_head.layer_norm"
                                                     : "vocab_layer_norm";
  const std::string decoder = kind_ == Kind::kBert      ? "cls.predictions.decoder"
                              : kind_ == Kind::kRoberta ? "lm_head.decoder"
                                                        : "vocab_projector";
  const std::string bias = kind_ == Kind::kBert      ? "cls.predictions.bias"
                           : kind_ == Kind::kRoberta ? "lm_head.bias"
                                                     : "vocab_projector.bias";
  transform_ = Linear::add(layout_, transform, {width_, width_}, normal);
  transform_norm_ = Norm::add(layout_, norm, width_, epsilon_);
  lm_bias_ = layout_.add(bias, {vocabulary_}, Init::zeros());
  if (kind_ != Kind::kDistilBert) layout_.alias(decoder + ".bias", lm_bias_);
  if (tied) {
    lm_table_ = words_.table;
    layout_.alias(decoder + ".weight", lm_table_);
  } else {
    lm_table_ = layout_.add(decoder + ".weight", {vocabulary_, width_}, normal);
  }
  layout_.mark_head_table(lm_table_);
}

Output BertFamily::forward(const Params& params, const Batch& batch, Dropout& dropout) const {
  return apply_head(params, batch, bottom(params, batch, layers(), dropout), dropout);
}

Output BertFamily::answer(const Params& params, const Batch& batch, Dropout& dropout) const {
  const int below = layers() - 1;
  if (head_ != Head::kSequenceClassification || module_ || batch.bottom_layers > below) {
    return forward(params, batch, dropout);
  }
  at::Tensor x = bottom(params, batch, below, dropout);
  const at::Tensor mixed = attend(layers_.back(), params, x, *batch.packing, dropout);
  const at::Tensor& first = batch.packing->first_token();
  dropout.pick(first);
  x = after_attention(layers_.back(), params, Packing::pick(mixed, first), Packing::pick(x, first), dropout);
  dropout.pick({});
  return {classify(params, x, dropout), {}};
}

at::Tensor BertFamily::bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const {
  at::Tensor x = batch.bottom.defined() ? batch.bottom : embed(params, batch, dropout);
  for (auto i = static_cast<std::size_t>(batch.bottom_layers); i < static_cast<std::size_t>(count); ++i) {
    x = apply(layers_.at(i), params, x, *batch.packing, dropout);
  }
  return x;
}

at::Tensor BertFamily::embed(const Params& params, const Batch& batch, Dropout& dropout) const {
  at::Tensor x = words_(params, batch.ids);
  if (types_.table.exists()) x = x + types_(params, batch.types.defined() ? batch.types : torch::zeros_like(batch.ids));
  at::Tensor positions = batch.packing->positions() + position_offset_;
  // RoBERTa gives padding tokens the position of the pad token.
  const at::Tensor& visible = batch.packing->visible();
  if (positions_table_.padding >= 0 && visible.defined()) {
    positions = positions.masked_fill(visible.logical_not(), positions_table_.padding);
  }
  x = x + positions_table_(params, positions);
  return dropout.hidden(embedding_norm_(params, x), hidden_dropout_);
}

at::Tensor BertFamily::apply(const Layer& layer, const Params& params, const at::Tensor& x, const Packing& packing,
                             Dropout& dropout) const {
  return after_attention(layer, params, attend(layer, params, x, packing, dropout), x, dropout);
}

at::Tensor BertFamily::after_attention(const Layer& layer, const Params& params, const at::Tensor& mixed,
                                       const at::Tensor& x, Dropout& dropout) const {
  const SublayerEnd end{layer.attention_norm, layer.attention_adapter,
                        kind_ == Kind::kDistilBert ? 0 : hidden_dropout_};
  const at::Tensor a = end(params, layer.attention_out, mixed, x, dropout);
  const at::Tensor inner = activate(activation_, params, layer.up, a);
  return SublayerEnd{layer.output_norm, layer.output_adapter, hidden_dropout_}(params, layer.down, inner, a, dropout);
}

at::Tensor BertFamily::attend(const Layer& layer, const Params& params, const at::Tensor& x, const Packing& packing,
                              Dropout& dropout) const {
  const AttentionSpec plain_spec{
      .heads = heads_, .scale = 1 / std::sqrt(static_cast<double>(width_ / heads_)), .dropout = attention_dropout_};
  const AttentionSpec spec = with_prefix(plain_spec, params, layer.prefix);
  const bool plain = !layer.query.update.a.exists() && !layer.key.update.a.exists() && !layer.value.update.a.exists();
  if (plain && uses_gpu_kernels(x)) {  // one matmul instead of three
    const at::Tensor qkv = joined_product(params, {layer.query.weight, layer.query.bias}, x);
    if (qkv.defined()) return self_attention(qkv, packing, spec, dropout);
  }
  const at::Tensor input = for_matmuls(params, x);
  return attention(layer.query(params, input), layer.key(params, input), layer.value(params, input), packing, packing,
                   spec, dropout);
}

at::Tensor BertFamily::classify(const Params& params, at::Tensor first, Dropout& dropout) const {
  if (kind_ == Kind::kRoberta) first = dropout.hidden(first, head_dropout_);
  first = pooler_(params, first);
  first = kind_ == Kind::kDistilBert ? torch::relu(first) : torch::tanh(first);
  return classifier_(params, dropout.hidden(first, head_dropout_));
}

Output BertFamily::apply_head(const Params& params, const Batch& batch, const at::Tensor& hidden,
                              Dropout& dropout) const {
  if (module_) return module_->apply(params, batch, hidden, dropout);
  if (head_ == Head::kNone) return {{}, hidden};
  if (head_ == Head::kSequenceClassification) {
    return {classify(params, Packing::pick(hidden, batch.packing->first_token()), dropout), hidden};
  }
  if (head_ == Head::kTokenClassification) return {classifier_(params, dropout.hidden(hidden, head_dropout_)), hidden};
  if (head_ == Head::kQuestionAnswering) {
    return {classifier_(params, kind_ == Kind::kDistilBert ? dropout.hidden(hidden, head_dropout_) : hidden), hidden};
  }
  at::Tensor x = batch.wanted.defined() ? Packing::pick(hidden, batch.wanted) : hidden;
  x = transform_norm_(params,
                      activate(kind_ == Kind::kRoberta ? Activation::kGelu : activation_, params, transform_, x));
  return language_output(params, {lm_table_, lm_bias_}, batch, x, hidden);
}

}  // namespace chorus::inline models

#include "application/models/bart.h"

#include <fmt/format.h>

#include <cmath>

#include "application/models/ops/residual.h"
#include "core/base/error.h"

namespace chorus::inline models {
namespace {

const Registration<Models> kBart{
    "bart", "BART encoder-decoder (Lewis et al., 2020)", [] {
      return std::make_unique<ModelFamily>(
          ModelFamily{.make = [](const ModelConfig& config, Head head) { return std::make_unique<Bart>(config, head); },
                      .class_prefix = "Bart",
                      .heads = {Head::kSeq2Seq},
                      .body_prefix = "model.",
                      .lora_targets = {"q_proj", "v_proj"},
                      .constants = {"encoder.version", "decoder.version"}});
    }};

constexpr std::int64_t kPositionOffset = 2;  // rows 0 and 1 of the position table are never read
constexpr double kEpsilon = 1e-5;

}  // namespace

Bart::Bart(const ModelConfig& config, Head head)
    : EncoderDecoder(config, head),
      width_(config.integer("d_model", 1024)),
      vocabulary_(config.integer("vocab_size", 50265)),
      positions_(config.integer("max_position_embeddings", 1024)),
      scale_(config.flag("scale_embedding", false) ? std::sqrt(static_cast<double>(width_)) : 1.0),
      dropout_(config.probability("dropout", 0.1)),
      attention_dropout_(config.probability("attention_dropout", 0)),
      activation_dropout_(config.probability("activation_dropout", 0)),
      deviation_(config.number("init_std", 0.02)),
      activation_(activation_named(config.text("activation_function", "gelu"))) {
  words_ = Embedding::add(layout_, "model.shared", vocabulary_, width_, Init::normal(deviation_));
  words_.padding = config.token("pad_token_id").value_or(-1);
  layout_.alias("model.encoder.embed_tokens.weight", words_.table);
  layout_.alias("model.decoder.embed_tokens.weight", words_.table);
  encoder_ = add_stack("encoder", 0);
  decoder_ = add_stack("decoder", static_cast<int>(encoder_.layers.size()));
  layout_.begin_layer(kHeadLayer);
  lm_table_ = words_.table;
  if (config.flag("tie_word_embeddings", true)) {
    layout_.alias("lm_head.weight", words_.table);
  } else {
    lm_table_ = layout_.add("lm_head.weight", {vocabulary_, width_}, Init::normal(deviation_));
  }
  layout_.mark_head_table(lm_table_);
  final_bias_ = layout_.add_buffer("final_logits_bias", {1, vocabulary_}, Init::zeros());
}

Bart::Stack Bart::add_stack(const std::string& side, int first_layer) {
  Stack stack;
  const std::string at = fmt::format("model.{}.", side);
  stack.heads = config_.integer(side + "_attention_heads", 16);
  if (width_ % stack.heads != 0) {
    throw DataError(fmt::format("{}: d_model {} is not a multiple of {}_attention_heads {}", config_.origin(), width_,
                                side, stack.heads));
  }
  const std::int64_t inner = config_.integer(side + "_ffn_dim", 4096);
  const std::int64_t count = config_.layers(side + "_layers", 12);
  const Init normal = Init::normal(deviation_);
  layout_.begin_layer(kEmbeddingLayer);
  stack.positions = Embedding::add(layout_, at + "embed_positions", positions_ + kPositionOffset, width_, normal);
  stack.embedding_norm = Norm::add(layout_, at + "layernorm_embedding", width_, kEpsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    layout_.begin_layer(first_layer + static_cast<int>(i));
    const std::string name = fmt::format("{}layers.{}.", at, i);
    Layer layer;
    layer.self = add_attention(name + "self_attn");
    if (side == "decoder") layer.cross = add_attention(name + "encoder_attn");
    layer.up = Linear::add(layout_, name + "fc1", {width_, inner}, normal);
    layer.down = Linear::add(layout_, name + "fc2", {inner, width_}, normal);
    layer.norm = Norm::add(layout_, name + "final_layer_norm", width_, kEpsilon);
    stack.layers.push_back(layer);
  }
  return stack;
}

Bart::Attention Bart::add_attention(const std::string& name) {
  const Init normal = Init::normal(deviation_);
  Attention attention;
  attention.query = Linear::add(layout_, name + ".q_proj", {width_, width_}, normal);
  attention.key = Linear::add(layout_, name + ".k_proj", {width_, width_}, normal);
  attention.value = Linear::add(layout_, name + ".v_proj", {width_, width_}, normal);
  attention.out = Linear::add(layout_, name + ".out_proj", {width_, width_}, normal);
  attention.norm = Norm::add(layout_, name + "_layer_norm", width_, kEpsilon);
  return attention;
}

std::vector<LayerSlots> Bart::slots() {
  std::vector<LayerSlots> slots;
  int number = 0;
  for (Stack* stack : {&encoder_, &decoder_}) {
    const bool decoder = stack == &decoder_;
    for (std::size_t i = 0; i < stack->layers.size(); ++i) {
      Layer& layer = stack->layers[i];
      LayerSlots slot{number++, fmt::format("model.{}.layers.{}", decoder ? "decoder" : "encoder", i), width_, width_};
      slot.linears = {&layer.self.query, &layer.self.key, &layer.self.value, &layer.self.out};
      if (decoder) {
        Attention& cross = layer.cross;
        slot.linears.insert(slot.linears.end(), {&cross.query, &cross.key, &cross.value, &cross.out});
      }
      slot.linears.insert(slot.linears.end(), {&layer.up, &layer.down});
      slot.after_attention = &layer.attention_adapter;
      slot.after_output = &layer.output_adapter;
      slot.prefix = &layer.prefix;
      slots.push_back(std::move(slot));
    }
  }
  return slots;
}

AttentionSpec Bart::attention_spec(std::int64_t heads) const {
  return {.heads = heads, .scale = 1 / std::sqrt(static_cast<double>(width_ / heads)), .dropout = attention_dropout_};
}

at::Tensor Bart::embed(const Stack& stack, const Params& params, const at::Tensor& ids, const at::Tensor& positions,
                       Dropout& dropout) const {
  const at::Tensor x = words_(params, ids) * scale_ + stack.positions(params, positions + kPositionOffset);
  return dropout.hidden(stack.embedding_norm(params, x), dropout_);
}

at::Tensor Bart::feed_forward(const Layer& layer, const Params& params, const at::Tensor& x, Dropout& dropout) const {
  const at::Tensor inner = dropout.hidden(activate(activation_, params, layer.up, x), activation_dropout_);
  return SublayerEnd{layer.norm, layer.output_adapter, dropout_}(params, layer.down, inner, x, dropout);
}

at::Tensor Bart::encode(const Params& params, const Batch& batch, Dropout& dropout) const {
  return bottom(params, batch, cuts(), dropout);
}

at::Tensor Bart::bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const {
  const at::Tensor x =
      batch.bottom.defined() ? batch.bottom : embed(encoder_, params, batch.ids, batch.packing->positions(), dropout);
  const Range range{static_cast<std::size_t>(batch.bottom_layers), static_cast<std::size_t>(count)};
  return run_encoder(params, x, range, *batch.packing, dropout);
}

unsigned Bart::readers(ParamId id, int first, int end) const {
  if (id.index == words_.table.index) return kLower | kUpper;
  const ParamSpec& spec = layout_[id];
  if (spec.layer == kEmbeddingLayer && spec.name.starts_with("model.decoder.")) return kUpper;
  return EncoderDecoder::readers(id, first, end);
}

at::Tensor Bart::run_encoder(const Params& params, at::Tensor x, Range range, const Packing& packing,
                             Dropout& dropout) const {
  for (std::size_t i = range.first; i < range.end; ++i) {
    const Layer& layer = encoder_.layers.at(i);
    const at::Tensor mixed =
        attention(layer.self.query(params, x), layer.self.key(params, x), layer.self.value(params, x), packing, packing,
                  with_prefix(attention_spec(encoder_.heads), params, layer.prefix), dropout);
    x = SublayerEnd{layer.self.norm, layer.attention_adapter, dropout_}(params, layer.self.out, mixed, x, dropout);
    x = feed_forward(layer, params, x, dropout);
  }
  return x;
}

std::pair<at::Tensor, at::Tensor> Bart::project_source(const Params& params, std::size_t layer,
                                                       const at::Tensor& source) const {
  const Attention& cross = decoder_.layers[layer].cross;
  return {cross.key(params, source), cross.value(params, source)};
}

at::Tensor Bart::decode(const Params& params, const at::Tensor& ids, const at::Tensor& positions, const Mixers& mixers,
                        Dropout& dropout) const {
  at::Tensor x = embed(decoder_, params, ids, positions, dropout);
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i) {
    const Layer& layer = decoder_.layers[i];
    const at::Tensor mixed =
        mixers.self(i, layer.self.query(params, x), layer.self.key(params, x), layer.self.value(params, x));
    x = SublayerEnd{layer.self.norm, layer.attention_adapter, dropout_}(params, layer.self.out, mixed, x, dropout);
    const at::Tensor read = mixers.cross(i, layer.cross.query(params, x));
    x = residual_norm(params, layer.cross.norm, layer.cross.out(params, read), x, dropout, dropout_);
    x = feed_forward(layer, params, x, dropout);
  }
  return x;
}

at::Tensor Bart::logits(const Params& params, const at::Tensor& hidden) const {
  return project_to_table(params, lm_table_, hidden) + params[final_bias_];
}

}  // namespace chorus::inline models

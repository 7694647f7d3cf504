#include "application/models/t5.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline models {
namespace {

const Registration<Models> kT5{
    "t5", "T5 encoder-decoder, also version 1.1 (Raffel et al., 2020)", [] {
      return std::make_unique<ModelFamily>(
          ModelFamily{.make = [](const ModelConfig& config, Head head) { return std::make_unique<T5>(config, head); },
                      .class_prefix = "T5",
                      .heads = {Head::kSeq2Seq},
                      .lora_targets = {"q", "v"},
                      // In the decoder's first layer in files of 2020: the self-attention has the bias.
                      .constants = {"EncDecAttention.relative_attention_bias.weight"}});
    }};

}  // namespace

at::Tensor relative_position_bucket(const at::Tensor& relative, bool bidirectional, std::int64_t buckets,
                                    std::int64_t max_distance) {
  at::Tensor offset = torch::zeros_like(relative);
  at::Tensor distance;
  if (bidirectional) {
    buckets /= 2;
    offset = relative.gt(0).to(at::kLong) * buckets;
    distance = relative.abs();
  } else {
    distance = relative.clamp_max(0).neg();
  }
  const std::int64_t exact = buckets / 2;
  // float32, as in the original, because the bucket borders depend on it.
  const at::Tensor logarithm = torch::log(distance.clamp_min(1).to(at::kFloat) / static_cast<double>(exact)) /
                               std::log(static_cast<double>(max_distance) / static_cast<double>(exact)) *
                               static_cast<double>(buckets - exact);
  const at::Tensor far = (logarithm.to(at::kLong) + exact).clamp_max(buckets - 1);
  return offset + torch::where(distance.lt(exact), distance, far);
}

T5::T5(const ModelConfig& config, Head head)
    : EncoderDecoder(config, head),
      width_(config.integer("d_model", 512)),
      head_width_(config.integer("d_kv", 64)),
      heads_(config.integer("num_heads", 8)),
      inner_(config.integer("d_ff", 2048)),
      vocabulary_(config.integer("vocab_size", 32128)),
      buckets_(config.integer("relative_attention_num_buckets", 32, 4)),
      max_distance_(config.integer("relative_attention_max_distance", 128)),
      dropout_(config.probability("dropout_rate", 0.1)),
      epsilon_(config.number("layer_norm_epsilon", 1e-6)),
      factor_(config.number("initializer_factor", 1.0)) {
  if (max_distance_ <= buckets_ / 2) {
    throw DataError(fmt::format("{}: relative_attention_max_distance {} must exceed half of the {} buckets",
                                config.origin(), max_distance_, buckets_));
  }
  std::string activation = config.text("feed_forward_proj", "relu");
  gated_ = activation.starts_with("gated-");
  if (gated_) activation = activation.substr(6);
  // Version 1.1 writes "gated-gelu" and means the tanh form.
  activation_ = gated_ && activation == "gelu" ? Activation::kGeluTanh : activation_named(activation);
  const bool tied = config.flag("tie_word_embeddings", true);
  scaled_logits_ = config.flag("scale_decoder_outputs", tied);

  words_ = Embedding::add(layout_, "shared", vocabulary_, width_, Init::normal(factor_));
  layout_.alias("encoder.embed_tokens.weight", words_.table);
  layout_.alias("decoder.embed_tokens.weight", words_.table);
  const std::int64_t count = config.layers("num_layers", 6);
  encoder_ = add_stack("encoder", count, 0);
  decoder_ = add_stack("decoder", config.layers("num_decoder_layers", count), static_cast<int>(count));
  layout_.begin_layer(kHeadLayer);
  lm_table_ = words_.table;
  if (tied) {
    layout_.alias("lm_head.weight", words_.table);
  } else {
    lm_table_ = layout_.add("lm_head.weight", {vocabulary_, width_}, Init::normal(factor_));
  }
  layout_.mark_head_table(lm_table_);
}

T5::Stack T5::add_stack(const std::string& side, std::int64_t count, int first_layer) {
  Stack stack;
  const double width = static_cast<double>(width_), inner = static_cast<double>(inner_);
  for (std::int64_t i = 0; i < count; ++i) {
    layout_.begin_layer(first_layer + static_cast<int>(i));
    const std::string at = fmt::format("{}.block.{}.layer.", side, i);
    Layer layer;
    layer.self = add_attention(at + "0.", "SelfAttention");
    if (i == 0) {
      stack.bias = layout_.add(at + "0.SelfAttention.relative_attention_bias.weight", {buckets_, heads_},
                               Init::normal(factor_ / std::sqrt(width)));
    }
    if (side == "decoder") layer.cross = add_attention(at + "1.", "EncDecAttention");
    const std::string last = at + (side == "decoder" ? "2." : "1.");
    const auto dense = [&](const char* name, std::int64_t in, std::int64_t out, double fan) {
      return Linear::add(layout_, last + "DenseReluDense." + name, {.in = in, .out = out, .with_bias = false},
                         Init::normal(factor_ / std::sqrt(fan)));
    };
    layer.up = dense(gated_ ? "wi_0" : "wi", width_, inner_, width);
    if (gated_) layer.gate = dense("wi_1", width_, inner_, width);
    layer.down = dense("wo", inner_, width_, inner);
    layer.norm = Norm::add_rms(layout_, last + "layer_norm", width_, epsilon_);
    stack.layers.push_back(layer);
  }
  stack.final_norm = Norm::add_rms(layout_, side + ".final_layer_norm", width_, epsilon_);
  return stack;
}

T5::Attention T5::add_attention(const std::string& at, const char* name) {
  const std::int64_t inner = heads_ * head_width_;
  const double width = static_cast<double>(width_), head = static_cast<double>(head_width_);
  const auto dense = [&](const char* part, std::int64_t in, std::int64_t out, double deviation) {
    return Linear::add(layout_, fmt::format("{}{}.{}", at, name, part), {.in = in, .out = out, .with_bias = false},
                       Init::normal(factor_ * deviation));
  };
  Attention attention;
  attention.query = dense("q", width_, inner, 1 / std::sqrt(width * head));
  attention.key = dense("k", width_, inner, 1 / std::sqrt(width));
  attention.value = dense("v", width_, inner, 1 / std::sqrt(width));
  attention.out = dense("o", inner, width_, 1 / std::sqrt(static_cast<double>(inner)));
  attention.norm = Norm::add_rms(layout_, at + "layer_norm", width_, epsilon_);
  return attention;
}

std::vector<LayerSlots> T5::slots() {
  std::vector<LayerSlots> slots;
  int number = 0;
  for (Stack* stack : {&encoder_, &decoder_}) {
    const bool decoder = stack == &decoder_;
    for (std::size_t i = 0; i < stack->layers.size(); ++i) {
      Layer& layer = stack->layers[i];
      LayerSlots slot{number++, fmt::format("{}.block.{}", decoder ? "decoder" : "encoder", i), width_,
                      heads_ * head_width_};
      slot.linears = {&layer.self.query, &layer.self.key, &layer.self.value, &layer.self.out};
      if (decoder) {
        Attention& cross = layer.cross;
        slot.linears.insert(slot.linears.end(), {&cross.query, &cross.key, &cross.value, &cross.out});
      }
      slot.linears.insert(slot.linears.end(), {&layer.up, &layer.down});
      if (gated_) slot.linears.push_back(&layer.gate);
      slot.after_attention = &layer.attention_adapter;
      slot.after_output = &layer.output_adapter;
      slot.prefix = &layer.prefix;
      slots.push_back(std::move(slot));
    }
  }
  return slots;
}

at::Tensor T5::position_bias(const Params& params, ParamId table, const at::Tensor& relative,
                             bool bidirectional) const {
  const std::int64_t clients = params.trainable(table) ? params.clients() : 1;
  const at::Tensor buckets = relative_position_bucket(relative, bidirectional, buckets_, max_distance_);
  const at::Tensor ids = buckets.view({1, -1}).expand({clients, -1});
  return Embedding{.table = table}(params, ids)
      .view({clients, relative.size(0), relative.size(1), heads_})
      .permute({0, 3, 1, 2});
}

at::Tensor T5::self_bias(const Params& params, std::int64_t first, std::int64_t queries, std::int64_t keys) const {
  if (!decoder_.bias.exists()) return {};
  const auto options = at::TensorOptions(params.device()).dtype(at::kLong);
  const at::Tensor relative =
      torch::arange(keys, options).unsqueeze(0) - torch::arange(first, first + queries, options).unsqueeze(1);
  return position_bias(params, decoder_.bias, relative, false);
}

at::Tensor T5::feed_forward(const Layer& layer, const Params& params, const at::Tensor& x, Dropout& dropout) const {
  const at::Tensor normal = layer.norm(params, x);
  at::Tensor inner = activate(activation_, params, layer.up, normal);
  if (gated_) inner = inner * layer.gate(params, normal);
  at::Tensor f = dropout.hidden(layer.down(params, dropout.hidden(inner, dropout_)), dropout_);
  if (layer.output_adapter.exists()) f = layer.output_adapter(params, f, x, nullptr);
  return x + f;
}

at::Tensor T5::encode(const Params& params, const Batch& batch, Dropout& dropout) const {
  return dropout.hidden(encoder_.final_norm(params, bottom(params, batch, cuts(), dropout)), dropout_);
}

at::Tensor T5::bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const {
  const at::Tensor x = batch.bottom.defined() ? batch.bottom : dropout.hidden(words_(params, batch.ids), dropout_);
  const Range range{static_cast<std::size_t>(batch.bottom_layers), static_cast<std::size_t>(count)};
  return run_encoder(params, x, range, *batch.packing, dropout);
}

unsigned T5::readers(ParamId id, int first, int end) const {
  if (id.index == words_.table.index) return kLower | kUpper;
  if (id.index == encoder_.bias.index) return (first > 0 ? kLower : 0U) | (end > first ? kMiddle : 0U);
  if (layout_[id].name.starts_with("encoder.final_layer_norm")) return kUpper;
  return EncoderDecoder::readers(id, first, end);
}

at::Tensor T5::run_encoder(const Params& params, at::Tensor x, Range range, const Packing& packing,
                           Dropout& dropout) const {
  AttentionSpec spec = self_spec();
  const at::Tensor place = torch::arange(packing.longest(), at::TensorOptions(params.device()).dtype(at::kLong));
  const at::Tensor relative = place.unsqueeze(0) - place.unsqueeze(1);
  for (std::size_t i = range.first; i < range.end; ++i) {
    const Layer& layer = encoder_.layers.at(i);
    // Looked up by each layer, so that its gradient is a sum layer by layer, wherever the network is cut.
    spec.bias = per_sequence(position_bias(params, encoder_.bias, relative, true), packing);
    const at::Tensor normal = layer.self.norm(params, x);
    const at::Tensor mixed =
        attention(layer.self.query(params, normal), layer.self.key(params, normal), layer.self.value(params, normal),
                  packing, packing, with_prefix(spec, params, layer.prefix), dropout);
    x = x + attended(layer, params, x, mixed, dropout);
    x = feed_forward(layer, params, x, dropout);
  }
  return x;
}

at::Tensor T5::attended(const Layer& layer, const Params& params, const at::Tensor& x, const at::Tensor& mixed,
                        Dropout& dropout) const {
  const at::Tensor f = dropout.hidden(layer.self.out(params, mixed), dropout_);
  return layer.attention_adapter.exists() ? layer.attention_adapter(params, f, x, nullptr) : f;
}

std::pair<at::Tensor, at::Tensor> T5::project_source(const Params& params, std::size_t layer,
                                                     const at::Tensor& source) const {
  const Attention& cross = decoder_.layers[layer].cross;
  return {cross.key(params, source), cross.value(params, source)};
}

at::Tensor T5::decode(const Params& params, const at::Tensor& ids, const at::Tensor&, const Mixers& mixers,
                      Dropout& dropout) const {
  at::Tensor x = dropout.hidden(words_(params, ids), dropout_);
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i) {
    const Layer& layer = decoder_.layers[i];
    const at::Tensor normal = layer.self.norm(params, x);
    const at::Tensor mixed = mixers.self(i, layer.self.query(params, normal), layer.self.key(params, normal),
                                         layer.self.value(params, normal));
    x = x + attended(layer, params, x, mixed, dropout);
    const at::Tensor read = mixers.cross(i, layer.cross.query(params, layer.cross.norm(params, x)));
    x = x + dropout.hidden(layer.cross.out(params, read), dropout_);
    x = feed_forward(layer, params, x, dropout);
  }
  return dropout.hidden(decoder_.final_norm(params, x), dropout_);
}

at::Tensor T5::logits(const Params& params, const at::Tensor& hidden) const {
  const at::Tensor scaled = scaled_logits_ ? hidden * std::pow(static_cast<double>(width_), -0.5) : hidden;
  return project_to_table(params, lm_table_, scaled);
}

}  // namespace chorus::inline models

#include "application/models/gpt2.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "application/models/ops/attending.h"
#include "application/models/ops/residual.h"
#include "core/base/error.h"

namespace chorus::inline models {
namespace {

const Registration<Models> kGpt2{
    "gpt2", "GPT-2 causal language model (Radford et al., 2019)", [] {
      return std::make_unique<ModelFamily>(
          ModelFamily{.make = [](const ModelConfig& config, Head head) { return std::make_unique<Gpt2>(config, head); },
                      .class_prefix = "GPT2",
                      .heads = {Head::kNone, Head::kCausalLm},
                      .takes_modules = true,
                      .body_prefix = "transformer.",
                      .lora_targets = {"c_attn"},
                      .transposed = true,
                      .class_endings = {{Head::kCausalLm, "LMHeadModel"}},
                      .constants = {"attn.bias", "attn.masked_bias"},
                      .body_ends = {"ln_f.weight", "ln_f.bias"}});
    }};

}  // namespace

Gpt2::Gpt2(const ModelConfig& config, Head head)
    : GenerativeModel(config, head),
      width_(config.integer("n_embd", 768)),
      heads_(config.integer("n_head", 12)),
      vocabulary_(config.integer("vocab_size", 50257)),
      positions_(config.integer("n_positions", 1024)),
      embedding_dropout_(config.probability("embd_pdrop", 0.1)),
      residual_dropout_(config.probability("resid_pdrop", 0.1)),
      attention_dropout_(config.probability("attn_pdrop", 0.1)),
      activation_(activation_named(config.text("activation_function", "gelu_new"))) {
  if (width_ % heads_ != 0) {
    throw DataError(fmt::format("{}: n_embd {} is not a multiple of n_head {}", config.origin(), width_, heads_));
  }
  for (const char* key : {"add_cross_attention", "scale_attn_by_inverse_layer_idx"}) {
    if (config.flag(key, false)) {
      throw DataError(fmt::format("{}: '{}' is true, which Chorus does not compute", config.origin(), key));
    }
  }
  const std::int64_t count = config.layers("n_layer", 12);
  const std::int64_t inner = config.integer("n_inner", 4 * width_);
  const double epsilon = config.number("layer_norm_epsilon", 1e-5);
  const double deviation = config.number("initializer_range", 0.02);
  const Init normal = Init::normal(deviation);
  const Init residual =
      Init::normal(deviation / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(count, 1))));

  words_ = Embedding::add(layout_, "transformer.wte", vocabulary_, width_, normal);
  positions_table_ = Embedding::add(layout_, "transformer.wpe", positions_, width_, normal);
  const auto dense = [&](const std::string& name, std::int64_t in, std::int64_t out, Init init) {
    return Linear::add(layout_, name, {.in = in, .out = out, .with_bias = true, .transposed = true}, init);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    layout_.begin_layer(static_cast<int>(i));
    const std::string at = fmt::format("transformer.h.{}.", i);
    Layer layer;
    layer.attention_norm = Norm::add(layout_, at + "ln_1", width_, epsilon);
    layer.projection = dense(at + "attn.c_attn", width_, 3 * width_, normal);
    layer.attention_out = dense(at + "attn.c_proj", width_, width_, residual);
    layer.output_norm = Norm::add(layout_, at + "ln_2", width_, epsilon);
    layer.up = dense(at + "mlp.c_fc", width_, inner, normal);
    layer.down = dense(at + "mlp.c_proj", inner, width_, residual);
    layers_.push_back(layer);
  }
  layout_.begin_layer(kHeadLayer);
  final_norm_ = Norm::add(layout_, "transformer.ln_f", width_, epsilon);
  lm_table_ = words_.table;
  add_module(deviation);
  if (head == Head::kCausalLm) {
    if (config.flag("tie_word_embeddings", true)) {
      layout_.alias("lm_head.weight", words_.table);
    } else {
      lm_table_ = layout_.add("lm_head.weight", {vocabulary_, width_}, normal);
    }
    layout_.mark_head_table(lm_table_);
  }
}

AttentionSpec Gpt2::spec(const Params& params, std::size_t layer) const {
  const AttentionSpec plain{.heads = heads_,
                            .scale = 1 / std::sqrt(static_cast<double>(width_ / heads_)),
                            .causal = true,
                            .dropout = attention_dropout_};
  return with_prefix(plain, params, layers_[layer].prefix);
}

std::vector<LayerSlots> Gpt2::slots() {
  std::vector<LayerSlots> slots;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    LayerSlots slot{static_cast<int>(i), fmt::format("transformer.h.{}", i), width_, width_};
    slot.linears = {&layer.projection, &layer.attention_out, &layer.up, &layer.down};
    slot.after_attention = &layer.attention_adapter;
    slot.after_output = &layer.output_adapter;
    slot.prefix = &layer.prefix;
    slots.push_back(std::move(slot));
  }
  return slots;
}

at::Tensor Gpt2::embed(const Params& params, const at::Tensor& ids, const at::Tensor& positions) const {
  return words_(params, ids) + positions_table_(params, positions);
}

at::Tensor Gpt2::run(const Params& params, at::Tensor x, Range range, const Mixer& mixer, Dropout& dropout) const {
  if (range.first >= range.end) return x;
  at::Tensor normal;
  if (range.first == 0) {
    normal = layers_[0].attention_norm(params, x);
  } else {
    // The layer below would have added and normalised in one operation, whose gradient is rounded once.
    Dropout off;
    const SumAndNorm both = sum_then_norm(params, layers_[range.first].attention_norm, torch::zeros_like(x), x, off, 0);
    x = both.sum;
    normal = both.normal;
  }
  // Adds a sub-layer's output to x; the next one begins with the norm of the sum.
  const auto add = [&](at::Tensor f, const Adapter& adapter, const Norm* next) {
    double probability = residual_dropout_;
    if (adapter.exists()) {
      f = adapter(params, dropout.hidden(f, std::exchange(probability, 0)), x, nullptr);
    }
    if (next == nullptr) {
      x = x + dropout.hidden(f, probability);
      return;
    }
    const SumAndNorm both = sum_then_norm(params, *next, f, x, dropout, probability);
    x = both.sum;
    normal = both.normal;
  };
  for (std::size_t i = range.first; i < range.end; ++i) {
    const Layer& layer = layers_[i];
    const at::Tensor mixed = mixer(i, layer.projection(params, normal));
    add(layer.attention_out(params, mixed), layer.attention_adapter, &layer.output_norm);
    const at::Tensor inner = activate(activation_, params, layer.up, normal);
    const Norm* next = i + 1 < range.end ? &layers_[i + 1].attention_norm : nullptr;
    // Below a cut the sum is rounded as in the uncut network; the norm is not used.
    if (next == nullptr && range.end < layers_.size()) next = &layer.output_norm;
    add(layer.down(params, inner), layer.output_adapter, next);
  }
  return x;
}

at::Tensor Gpt2::finish(const Params& params, const at::Tensor& x, std::size_t first, const Mixer& mixer,
                        Dropout& dropout) const {
  return final_norm_(params, run(params, x, {first, layers_.size()}, mixer, dropout));
}

at::Tensor Gpt2::logits(const Params& params, const at::Tensor& hidden) const {
  return head_ == Head::kCausalLm ? project_to_table(params, lm_table_, hidden) : at::Tensor();
}

Output Gpt2::forward(const Params& params, const Batch& batch, Dropout& dropout) const {
  const at::Tensor hidden = final_norm_(params, bottom(params, batch, layers(), dropout));
  if (module_) return module_->apply(params, batch, hidden, dropout);
  if (head_ != Head::kCausalLm) return {{}, hidden};
  const at::Tensor rows = batch.wanted.defined() ? Packing::pick(hidden, batch.wanted) : hidden;
  return language_output(params, {lm_table_}, batch, rows, hidden);
}

at::Tensor Gpt2::bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const {
  const Packing& packing = *batch.packing;
  const Mixer mixer = [&](std::size_t i, const at::Tensor& qkv) {
    return self_attention(qkv, packing, spec(params, i), dropout);
  };
  const at::Tensor x = batch.bottom.defined()
                           ? batch.bottom
                           : dropout.hidden(embed(params, batch.ids, packing.positions()), embedding_dropout_);
  return run(params, x, {static_cast<std::size_t>(batch.bottom_layers), static_cast<std::size_t>(count)}, mixer,
             dropout);
}

DecodeState Gpt2::begin(const Params& params, const Batch& batch) const {
  DecodeState state;
  state.layers.resize(layers_.size());
  const Packing& packing = *batch.packing;
  Dropout off;
  const Mixer mixer = [&](std::size_t i, const at::Tensor& qkv) {
    const Attending parts = Attending::parts(qkv);
    state.layers[i].self = KeyValueCache::of(parts.k, parts.v, packing, spec(params, i));
    return self_attention(qkv, packing, spec(params, i), off);
  };
  const at::Tensor x = embed(params, batch.ids, packing.positions());
  const at::Tensor last = Packing::pick(finish(params, x, 0, mixer, off), packing.last_token());
  state.positions = torch::tensor(packing.lengths()[0], at::kLong).to(batch.ids.device());
  state.logits = logits(params, last).squeeze(0);
  return state;
}

void Gpt2::advance(const Params& params, DecodeState& state, const at::Tensor& ids) const {
  Dropout off;
  const Mixer mixer = [&](std::size_t i, const at::Tensor& qkv) {
    const Attending parts = Attending::parts(qkv);
    state.layers[i].self.append(parts.k, parts.v);
    return attend_to_cache(parts.q, state.layers[i].self, spec(params, i));
  };
  const at::Tensor x = embed(params, ids.unsqueeze(0), state.positions.unsqueeze(0));
  state.logits = logits(params, finish(params, x, 0, mixer, off)).squeeze(0);
  state.positions = state.positions + 1;
}

}  // namespace chorus::inline models

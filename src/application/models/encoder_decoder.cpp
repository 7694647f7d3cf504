#include "application/models/encoder_decoder.h"

#include <fmt/format.h>

#include "application/models/ops/lookup.h"
#include "core/base/error.h"

namespace chorus::inline models {

EncoderDecoder::EncoderDecoder(const ModelConfig& config, Head head) : GenerativeModel(config, head) {
  const auto start = config.token("decoder_start_token_id");
  if (!start) throw DataError(fmt::format("{}: the key 'decoder_start_token_id' is missing", config.origin()));
  start_token_ = *start;
}

at::Tensor EncoderDecoder::self_bias(const Params&, std::int64_t, std::int64_t, std::int64_t) const { return {}; }

at::Tensor EncoderDecoder::per_sequence(const at::Tensor& bias, const Packing& packing) {
  if (!bias.defined() || bias.size(0) == 1) return bias;
  return repeat_rows(bias, packing.client_of());
}

Output EncoderDecoder::forward(const Params& params, const Batch& batch, Dropout& dropout) const {
  check(batch.target_packing != nullptr, "an encoder-decoder needs a target");
  const Packing& source_packing = *batch.packing;
  const Packing& target_packing = *batch.target_packing;
  const at::Tensor source = encode(params, batch, dropout);

  AttentionSpec self = self_spec();
  self.causal = true;
  const std::int64_t longest = target_packing.longest();
  self.bias = per_sequence(self_bias(params, 0, longest, longest), target_packing);
  const AttentionSpec cross = cross_spec();
  const Mixers mixers{.self =
                          [&](std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
                            return attention(q, k, v, target_packing, target_packing,
                                             with_prefix(self, params, self_prefix(layer)), dropout);
                          },
                      .cross =
                          [&](std::size_t layer, const at::Tensor& q) {
                            const auto [k, v] = project_source(params, layer, source);
                            return attention(q, k, v, target_packing, source_packing, cross, dropout);
                          }};
  const at::Tensor hidden = decode(params, batch.target_ids, target_packing.positions(), mixers, dropout);
  return {logits(params, batch.wanted.defined() ? Packing::pick(hidden, batch.wanted) : hidden), hidden};
}

DecodeState EncoderDecoder::begin(const Params& params, const Batch& batch) const {
  const Packing& packing = *batch.packing;
  Dropout off;
  const at::Tensor source = encode(params, batch, off);
  DecodeState state;
  for (std::size_t layer = 0; layer < decoder_layers(); ++layer) {
    const auto [k, v] = project_source(params, layer, source);
    state.layers.push_back({.self = {}, .cross = KeyValueCache::of(k, v, packing, cross_spec())});
  }
  const auto integers = batch.ids.options().dtype(at::kLong);
  state.positions = torch::zeros({packing.total_sequences()}, integers);
  advance(params, state, torch::full({packing.total_sequences()}, start_token_, integers));
  return state;
}

void EncoderDecoder::advance(const Params& params, DecodeState& state, const at::Tensor& ids) const {
  const auto seen = static_cast<std::int64_t>(state.tokens);
  AttentionSpec self = self_spec();
  self.bias = self_bias(params, seen, 1, seen + 1);
  const Mixers mixers{
      .self =
          [&](std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
            KeyValueCache& cache = state.layers[layer].self;
            const AttentionSpec spec = with_prefix(self, params, self_prefix(layer));
            if (seen == 0) cache = KeyValueCache::empty(ids.size(0), k, spec);
            cache.append(k, v);
            return attend_to_cache(q, cache, spec);
          },
      .cross = [&](std::size_t layer,
                   const at::Tensor& q) { return attend_to_cache(q, state.layers[layer].cross, cross_spec()); }};
  Dropout off;
  const at::Tensor hidden = decode(params, ids.unsqueeze(0), state.positions.unsqueeze(0), mixers, off);
  state.logits = logits(params, hidden).squeeze(0);
  state.positions = state.positions + 1;
  ++state.tokens;
}

}  // namespace chorus::inline models

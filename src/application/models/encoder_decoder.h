#pragma once

#include <functional>
#include <utility>

#include "application/models/model.h"
#include "application/models/ops/attachments.h"

namespace chorus::inline models {

/// Shared by BART and T5: encode the source once, then decode the target: in training all tokens at once under a causal
/// mask, in generation one token at a time from caches. A concrete model provides its encoder, its decoder stack and
/// its biases; both ways of decoding run the same stack.
class EncoderDecoder : public GenerativeModel {
 public:
  EncoderDecoder(const ModelConfig& config, Head head);

  Output forward(const Params& params, const Batch& batch, Dropout& dropout) const override;
  DecodeState begin(const Params& params, const Batch& batch) const override;
  void advance(const Params& params, DecodeState& state, const at::Tensor& ids) const override;
  bool has_encoder() const override { return true; }

 protected:
  /// Attention of the decoder: on a layer's three projections, and of its query on the source.
  struct Mixers {
    std::function<at::Tensor(std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)> self;
    std::function<at::Tensor(std::size_t layer, const at::Tensor& q)> cross;
  };

  /// The source's hidden states [C, T, H].
  virtual at::Tensor encode(const Params& params, const Batch& batch, Dropout& dropout) const = 0;
  /// Keys and values of the source for one decoder layer.
  virtual std::pair<at::Tensor, at::Tensor> project_source(const Params& params, std::size_t layer,
                                                           const at::Tensor& source) const = 0;
  /// The decoder stack over target tokens `ids` [C, T] at `positions` [C, T].
  virtual at::Tensor decode(const Params& params, const at::Tensor& ids, const at::Tensor& positions,
                            const Mixers& mixers, Dropout& dropout) const = 0;
  virtual at::Tensor logits(const Params& params, const at::Tensor& hidden) const = 0;
  virtual std::size_t decoder_layers() const = 0;
  virtual AttentionSpec self_spec() const = 0;
  virtual AttentionSpec cross_spec() const = 0;
  /// Bias of the decoder's self-attention scores for queries `first`..`first + queries - 1` on `keys` keys: [C or 1,
  /// heads, queries, keys], or undefined.
  virtual at::Tensor self_bias(const Params& params, std::int64_t first, std::int64_t queries, std::int64_t keys) const;
  /// The prefix of the decoder's self-attention, if one is attached.
  virtual Prefix self_prefix(std::size_t layer) const = 0;

  /// A bias per client [C, heads, Lq, Lk] becomes one per sequence [N, heads, Lq, Lk].
  static at::Tensor per_sequence(const at::Tensor& bias, const Packing& packing);

 private:
  std::int64_t start_token_;
};

}  // namespace chorus::inline models

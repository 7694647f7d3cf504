#pragma once

#include <vector>

#include "application/models/model.h"
#include "application/models/ops/layers.h"

namespace chorus::inline models {

/// GPT-2 (Radford et al., 2019): a decoder with pre-norm layers,
///   x += O(causal attention(LN1 x)),  x += W2 gelu_new(W1 LN2 x),
/// weights stored [in, out], one fused projection for query, key and value, logits from the word embeddings.
class Gpt2 : public GenerativeModel {
 public:
  Gpt2(const ModelConfig& config, Head head);

  Output forward(const Params& params, const Batch& batch, Dropout& dropout) const override;
  DecodeState begin(const Params& params, const Batch& batch) const override;
  void advance(const Params& params, DecodeState& state, const at::Tensor& ids) const override;
  bool has_encoder() const override { return false; }

  at::Tensor bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const override;
  int cuts() const override { return layers(); }
  std::vector<LayerSlots> slots() override;
  int layers() const override { return static_cast<int>(layers_.size()); }
  std::int64_t max_length() const override { return positions_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t width() const override { return width_; }

 private:
  struct Layer {
    Norm attention_norm, output_norm;
    Linear projection, attention_out, up, down;
    Adapter attention_adapter, output_adapter;
    Prefix prefix;
  };
  /// Computes attention from the three concatenated projections of a layer.
  using Mixer = std::function<at::Tensor(std::size_t layer, const at::Tensor& qkv)>;

  at::Tensor embed(const Params& params, const at::Tensor& ids, const at::Tensor& positions) const;
  struct Range {
    std::size_t first, end;
  };
  at::Tensor run(const Params& params, at::Tensor x, Range range, const Mixer& mixer, Dropout& dropout) const;
  /// All layers from `first` on, and the final norm.
  at::Tensor finish(const Params& params, const at::Tensor& x, std::size_t first, const Mixer& mixer,
                    Dropout& dropout) const;
  at::Tensor logits(const Params& params, const at::Tensor& hidden) const;
  AttentionSpec spec(const Params& params, std::size_t layer) const;

  std::int64_t width_, heads_, vocabulary_, positions_;
  double embedding_dropout_, residual_dropout_, attention_dropout_;
  Activation activation_;
  Embedding words_, positions_table_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  ParamId lm_table_;
};

}  // namespace chorus::inline models

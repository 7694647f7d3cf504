#pragma once

#include <vector>

#include "application/models/encoder_decoder.h"
#include "application/models/ops/layers.h"

namespace chorus::inline models {

/// T5 (Raffel et al., 2020): pre-norm encoder and decoder with RMS norms, no biases, unscaled scores, and a
/// relative-position bias that the first layer of each stack owns and all its layers add. Also version 1.1 (gated
/// feed-forward, untied logits).
class T5 : public EncoderDecoder {
 public:
  T5(const ModelConfig& config, Head head);

  at::Tensor bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const override;
  int cuts() const override { return static_cast<int>(encoder_.layers.size()); }
  unsigned readers(ParamId id, int first, int end) const override;
  std::vector<LayerSlots> slots() override;
  int layers() const override { return static_cast<int>(encoder_.layers.size() + decoder_.layers.size()); }
  std::int64_t max_length() const override { return 0; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t width() const override { return width_; }

 protected:
  at::Tensor encode(const Params& params, const Batch& batch, Dropout& dropout) const override;
  std::pair<at::Tensor, at::Tensor> project_source(const Params& params, std::size_t layer,
                                                   const at::Tensor& source) const override;
  at::Tensor decode(const Params& params, const at::Tensor& ids, const at::Tensor& positions, const Mixers& mixers,
                    Dropout& dropout) const override;
  at::Tensor logits(const Params& params, const at::Tensor& hidden) const override;
  std::size_t decoder_layers() const override { return decoder_.layers.size(); }
  Prefix self_prefix(std::size_t layer) const override { return decoder_.layers[layer].prefix; }
  AttentionSpec self_spec() const override { return {.heads = heads_, .scale = 1, .dropout = dropout_}; }
  AttentionSpec cross_spec() const override { return self_spec(); }
  at::Tensor self_bias(const Params& params, std::int64_t first, std::int64_t queries,
                       std::int64_t keys) const override;

 private:
  struct Attention {
    Norm norm;
    Linear query, key, value, out;
  };
  struct Layer {
    Attention self, cross;  // no cross in the encoder
    Adapter attention_adapter, output_adapter;
    Prefix prefix;
    Norm norm;
    Linear up, gate, down;  // gate: version 1.1 only
  };
  struct Stack {
    std::vector<Layer> layers;
    Norm final_norm;
    ParamId bias;  // [buckets, heads]
  };

  Stack add_stack(const std::string& side, std::int64_t count, int first_layer);
  Attention add_attention(const std::string& at, const char* name);
  at::Tensor position_bias(const Params& params, ParamId table, const at::Tensor& relative, bool bidirectional) const;
  /// The encoder's layers [first, end).
  struct Range {
    std::size_t first, end;
  };
  at::Tensor run_encoder(const Params& params, at::Tensor x, Range range, const Packing& packing,
                         Dropout& dropout) const;
  /// The self-attention output of a layer, which is added to x.
  at::Tensor attended(const Layer& layer, const Params& params, const at::Tensor& x, const at::Tensor& mixed,
                      Dropout& dropout) const;
  at::Tensor feed_forward(const Layer& layer, const Params& params, const at::Tensor& x, Dropout& dropout) const;

  std::int64_t width_, head_width_, heads_, inner_, vocabulary_, buckets_, max_distance_;
  double dropout_, epsilon_, factor_;
  bool gated_, scaled_logits_;
  Activation activation_;
  Embedding words_;
  Stack encoder_, decoder_;
  ParamId lm_table_;
};

/// T5's bucket of a relative position (key minus query): exact near 0, logarithmic up to max_distance. int64 in, int64
/// out, any shape. A bidirectional stack uses half of the buckets for each side.
at::Tensor relative_position_bucket(const at::Tensor& relative, bool bidirectional, std::int64_t buckets,
                                    std::int64_t max_distance);

}  // namespace chorus::inline models

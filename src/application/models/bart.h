#pragma once

#include <vector>

#include "application/models/encoder_decoder.h"
#include "application/models/ops/layers.h"

namespace chorus::inline models {

/// BART (Lewis et al., 2020): post-norm encoder and decoder, learned positions that start at row 2, logits from the
/// shared word embeddings plus a fixed bias.
class Bart : public EncoderDecoder {
 public:
  Bart(const ModelConfig& config, Head head);

  at::Tensor bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const override;
  int cuts() const override { return static_cast<int>(encoder_.layers.size()); }
  unsigned readers(ParamId id, int first, int end) const override;
  std::vector<LayerSlots> slots() override;
  int layers() const override { return static_cast<int>(encoder_.layers.size() + decoder_.layers.size()); }
  std::int64_t max_length() const override { return positions_; }
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
  AttentionSpec self_spec() const override { return attention_spec(decoder_.heads); }
  AttentionSpec cross_spec() const override { return attention_spec(decoder_.heads); }

 private:
  struct Attention {
    Linear query, key, value, out;
    Norm norm;
  };
  struct Layer {
    Attention self, cross;  // no cross in the encoder
    Adapter attention_adapter, output_adapter;
    Prefix prefix;
    Linear up, down;
    Norm norm;
  };
  struct Stack {
    Embedding positions;
    Norm embedding_norm;
    std::vector<Layer> layers;
    std::int64_t heads = 1;
  };

  Stack add_stack(const std::string& side, int first_layer);
  Attention add_attention(const std::string& name);
  AttentionSpec attention_spec(std::int64_t heads) const;
  at::Tensor embed(const Stack& stack, const Params& params, const at::Tensor& ids, const at::Tensor& positions,
                   Dropout& dropout) const;
  /// The encoder's layers [first, end).
  struct Range {
    std::size_t first, end;
  };
  at::Tensor run_encoder(const Params& params, at::Tensor x, Range range, const Packing& packing,
                         Dropout& dropout) const;
  at::Tensor feed_forward(const Layer& layer, const Params& params, const at::Tensor& x, Dropout& dropout) const;

  std::int64_t width_, vocabulary_, positions_;
  double scale_, dropout_, attention_dropout_, activation_dropout_, deviation_;
  Activation activation_;
  Embedding words_;
  Stack encoder_, decoder_;
  ParamId lm_table_, final_bias_;
};

}  // namespace chorus::inline models

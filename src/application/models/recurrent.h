#pragma once

#include <vector>

#include "application/models/model.h"
#include "application/models/ops/layers.h"

namespace chorus::inline models {

/// The recurrent baselines: "bilstm" (classification and tagging, bidirectional) and "lstm" (causal language model).
/// Embedding, `num_layers` layers of LSTM (gates i, f, g, o and two biases, as PyTorch's nn.LSTM, whose parameter
/// names they carry), and one linear layer. A sequence is classified by the last state of each direction.
///
/// config.json: model_type, vocab_size, embedding_size, hidden_size (of one direction), num_layers, dropout (between
/// layers and before the head), pad_token_id, id2label, tie_word_embeddings (lm; needs hidden_size == embedding_size).
class Recurrent : public GenerativeModel {
 public:
  Recurrent(const ModelConfig& config, Head head, bool bidirectional);

  Output forward(const Params& params, const Batch& batch, Dropout& dropout) const override;
  DecodeState begin(const Params& params, const Batch& batch) const override;
  void advance(const Params& params, DecodeState& state, const at::Tensor& ids) const override;
  bool has_encoder() const override { return false; }

  int layers() const override { return static_cast<int>(layers_.size()); }
  std::int64_t max_length() const override { return 0; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t width() const override { return bidirectional_ ? 2 * hidden_ : hidden_; }

 private:
  struct Direction {
    Linear input, state;  // weight_ih, bias_ih; weight_hh, bias_hh
  };
  using Layer = std::vector<Direction>;  // one direction, or forward and backward

  Direction add_direction(std::int64_t layer, std::int64_t in, bool backward);
  /// One direction over all sequences: [C, T, in] -> [C, T, hidden], and its last state, [C, B, hidden].
  std::pair<at::Tensor, at::Tensor> scan(const Direction& direction, const Params& params, const at::Tensor& x,
                                         const Packing& packing, bool backward) const;
  at::Tensor logits(const Params& params, const at::Tensor& hidden) const;

  std::int64_t vocabulary_, width_, hidden_;
  bool bidirectional_;
  double dropout_;
  Embedding words_;
  std::vector<Layer> layers_;
  Linear output_;
  ParamId lm_table_, lm_bias_;  // tied language model
};

}  // namespace chorus::inline models

#pragma once

#include <string>
#include <vector>

#include "application/models/model.h"
#include "application/models/ops/layers.h"

namespace chorus::inline models {

/// BERT (Devlin et al., 2019), RoBERTa (Liu et al., 2019) and DistilBERT (Sanh et al., 2019): one encoder, three sets
/// of names. Post-norm layers:  a = LN(x + O(attention(QKV x))),  y = LN(a + W2 gelu(W1 a)).
///
/// They differ in the embeddings (DistilBERT has no token types; RoBERTa counts positions from pad id + 1), in the
/// names, and in the heads: BERT classifies tanh(pooler(first token)), RoBERTa tanh(dense(first token)), DistilBERT
/// relu(pre_classifier(first token)); the masked-LM heads share one shape.
class BertFamily : public Model {
 public:
  enum class Kind { kBert, kRoberta, kDistilBert };

  BertFamily(const ModelConfig& config, Head head, Kind kind);

  Output forward(const Params& params, const Batch& batch, Dropout& dropout) const override;
  /// A sequence classifier needs only first tokens, and so does its last layer after the attention.
  Output answer(const Params& params, const Batch& batch, Dropout& dropout) const override;
  at::Tensor bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const override;
  int cuts() const override { return layers(); }
  const Embedding* words() const override { return head_ == Head::kMaskedLm ? nullptr : &words_; }
  std::vector<LayerSlots> slots() override;
  int layers() const override { return static_cast<int>(layers_.size()); }
  std::int64_t max_length() const override { return max_length_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t width() const override { return width_; }

 private:
  struct Layer {
    Linear query, key, value, attention_out, up, down;
    Norm attention_norm, output_norm;
    Adapter attention_adapter, output_adapter;
    Prefix prefix;
  };

  void add_embeddings();
  void add_layers();
  void add_head();
  void add_language_head();
  std::string layer_name(std::size_t layer) const;
  at::Tensor embed(const Params& params, const Batch& batch, Dropout& dropout) const;
  at::Tensor apply(const Layer& layer, const Params& params, const at::Tensor& x, const Packing& packing,
                   Dropout& dropout) const;
  at::Tensor attend(const Layer& layer, const Params& params, const at::Tensor& x, const Packing& packing,
                    Dropout& dropout) const;
  /// The rest of a layer, from the attention's input x and output `mixed`.
  at::Tensor after_attention(const Layer& layer, const Params& params, const at::Tensor& mixed, const at::Tensor& x,
                             Dropout& dropout) const;
  /// From first tokens.
  at::Tensor classify(const Params& params, at::Tensor first, Dropout& dropout) const;
  Output apply_head(const Params& params, const Batch& batch, const at::Tensor& hidden, Dropout& dropout) const;

  Kind kind_;
  std::string prefix_;
  std::int64_t width_, heads_, inner_, vocabulary_, positions_, max_length_, position_offset_ = 0;
  std::int64_t labels_ = 0;
  double epsilon_, hidden_dropout_, attention_dropout_, head_dropout_;
  double deviation_;
  Activation activation_;

  Embedding words_, positions_table_, types_;
  Norm embedding_norm_;
  std::vector<Layer> layers_;

  Linear pooler_;      // BERT's pooler, RoBERTa's classifier.dense, DistilBERT's pre_classifier
  Linear classifier_;  // every kind of classifier, and qa_outputs
  Linear transform_;   // masked LM
  Norm transform_norm_;
  ParamId lm_bias_;
  ParamId lm_table_;  // the word embeddings when tied
};

}  // namespace chorus::inline models

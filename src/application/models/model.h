#pragma once

#include <torch/types.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "application/models/model_config.h"
#include "application/models/model_family.h"
#include "application/models/ops/attachments.h"
#include "application/models/ops/attention.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/packing.h"
#include "application/models/ops/table_loss.h"
#include "core/tensor/layout.h"
#include "core/tensor/params.h"

namespace chorus::inline models {

/// The input of one step of a cohort: packed token ids. Encoder-decoders (BART, T5) also get the target.
struct Batch {
  std::shared_ptr<const Packing> packing;
  at::Tensor ids;                             ///< [C, T] int64; any valid id in the tail
  at::Tensor types;                           ///< [C, T] int64 token types, or undefined for all 0
  at::Tensor host_ids = {}, host_types = {};  ///< copies in host memory, if `ids` are on a GPU
  /// Where a language-model head is evaluated: columns [C, M] of the (target) tokens, or undefined for all. A masked LM
  /// needs only 15 % of its tokens, and the head is most of a small model's work.
  at::Tensor wanted;
  /// Labels for a language-model head, [C, T or M] int64, kIgnore where there is none (loss.h). If defined, the model
  /// may return Output::loss instead of logits; if undefined, it must not.
  at::Tensor answers;

  /// The output of the first `bottom_layers` layers (Model::bottom), [C, T, H]; undefined: start from the ids.
  at::Tensor bottom;
  int bottom_layers = 0;

  std::shared_ptr<const Packing> target_packing;  ///< decoder input of an encoder-decoder; same sequences
  at::Tensor target_ids;                          ///< [C, Tt]
};

struct Output {
  /// [C, B, labels] for sequence classification; [C, T, labels] for token classification; [C, T, 2] (start, end) for
  /// question answering; [C, T or M, V] for language models (of the target if there is one); any shape for a head with
  /// its own module. Undefined for Head::kNone.
  at::Tensor logits;
  at::Tensor hidden;     ///< [C, T, H] last hidden states (of the decoder if there is one)
  at::Tensor loss = {};  ///< [C] cross entropy of Batch::answers, if there are no logits
};

/// A network: a Layout and a pure function of (params, batch, dropout). Holds no values. Immutable except for
/// `layout().freeze`, which is called before Params are made. ModelFamily describes what a family has in common.
///
///     auto model = make_model(config, Head::kSequenceClassification);
///     Params params(model->layout(), {.clients = 8, .gradients = true});
///     at::Tensor logits = model->forward(params, batch, dropout).logits;
class Model {
 public:
  explicit Model(ModelConfig config, Head head) : config_(std::move(config)), head_(head) {}
  virtual ~Model() = default;

  virtual Output forward(const Params& params, const Batch& batch, Dropout& dropout) const = 0;
  /// The logits of `forward`, up to rounding. A model may skip work that does not affect them; Output::hidden is then
  /// undefined.
  virtual Output answer(const Params& params, const Batch& batch, Dropout& dropout) const;
  /// `answer` on a GPU. On a CPU a matmul's rounding depends on its number of rows, and `forward` keeps the bits of
  /// other ways to the same logits, such as a network that is split between machines.
  Output steady_answer(const Params& params, const Batch& batch, Dropout& dropout) const {
    return params.device().is_cuda() ? answer(params, batch, dropout) : forward(params, batch, dropout);
  }

  /// The output of the embeddings and the first `count` layers: [C, T, H]. Continues from Batch::bottom if that is
  /// defined. InternalError if the model cannot be cut there (see `cuts`).
  virtual at::Tensor bottom(const Params& params, const Batch& batch, int count, Dropout& dropout) const;
  /// The maximum number of layers after which the model can be cut, so that `forward` continues from Batch::bottom.
  virtual int cuts() const { return 0; }

  /// The parts of a network that is cut after layers `first` and `end`, as bits: which of them read a parameter.
  enum Reader : unsigned { kLower = 1, kMiddle = 2, kUpper = 4 };
  virtual unsigned readers(ParamId id, int first, int end) const;

  /// The table of Batch::ids, if nothing else reads it (no tied head) and training uses only ids in the data; else
  /// null.
  virtual const Embedding* words() const { return nullptr; }

  /// Where adapters, low-rank updates and prefixes can be attached; empty if the network is not a transformer.
  virtual std::vector<LayerSlots> slots() { return {}; }

  /// The number of layers that can be frozen or adapted; layer i holds the parameters with ParamSpec::layer == i.
  virtual int layers() const = 0;
  /// The longest sequence the model can read; 0: no limit.
  virtual std::int64_t max_length() const = 0;
  virtual std::int64_t vocabulary() const = 0;
  /// H, the width of the hidden states.
  virtual std::int64_t width() const = 0;

  /// Whether a parameter belongs to the last layer of a classifier, or to a head with its own module: what trains
  /// together with adapters. False for all parameters of a language model.
  bool is_answer(const ParamSpec& spec) const;

  const Layout& layout() const { return layout_; }
  Layout& layout() { return layout_; }
  const ModelConfig& config() const { return config_; }
  Head head() const { return head_; }

 protected:
  /// Adds the head's own module. False if the head has none, so that the family builds it.
  bool add_module(double deviation);
  /// Marks a layer of the head for `is_answer`.
  void mark_answer(const Linear& layer);

  Layout layout_;
  ModelConfig config_;
  Head head_;
  std::unique_ptr<const HeadModule> module_;  // null: the family computes the head

 private:
  std::set<int> answers_;  // parameter indices
};

/// A decoder's state between two tokens.
struct DecodeState {
  struct Layer {
    KeyValueCache self;
    KeyValueCache cross;  ///< of an encoder-decoder: the source, constant
  };
  std::vector<Layer> layers;
  at::Tensor positions;     ///< [N] tokens consumed per sequence
  std::int64_t tokens = 0;  ///< decoder steps of an encoder-decoder
  at::Tensor logits;        ///< [N, V] of the next token

  /// Sequence i continues sequence rows[i] (int64 [M]).
  void reorder(const at::Tensor& rows);
};

/// A model that can generate: one token at a time, with a key/value cache. Works on C = 1 (Params::client).
class GenerativeModel : public Model {
 public:
  using Model::Model;

  /// Reads the prompts (decoder-only) or the sources and the start token (encoder-decoder) of `batch`.
  virtual DecodeState begin(const Params& params, const Batch& batch) const = 0;
  /// Consumes one token per sequence, ids [N], and leaves the next logits in the state.
  virtual void advance(const Params& params, DecodeState& state, const at::Tensor& ids) const = 0;
  /// True for BART and T5, whose generated text is a separate sequence that starts with decoder_start_token_id.
  virtual bool has_encoder() const = 0;
};

/// Output of a language model's head for the wanted rows of hidden states [C, M, H].
Output language_output(const Params& params, const LanguageHead& head, const Batch& batch, const at::Tensor& rows,
                       const at::Tensor& hidden);

/// `spec` with a layer's prefix.
AttentionSpec with_prefix(AttentionSpec spec, const Params& params, const Prefix& prefix);

/// Makes the network that `config` describes, by its model_type, with the given head. DataError listing the known
/// architectures if the type is unknown, ConfigError if the type has no such head.
std::unique_ptr<Model> make_model(const ModelConfig& config, Head head);
/// With the head that config.json's "architectures" names; DataError if Chorus has no such head.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace chorus::inline models

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

/// What a cohort reads in one step: token ids, packed. A model that generates (BART, T5) also gets the target.
struct Batch {
  std::shared_ptr<const Packing> packing;
  at::Tensor ids;                             ///< [C, T] int64; anything valid in the tail
  at::Tensor types;                           ///< [C, T] int64 token types, or undefined for all 0
  at::Tensor ids_here = {}, types_here = {};  ///< the same in this machine's memory, where `ids` lie on a GPU
  /// Where a language-model head is evaluated: columns [C, M] of the (target) tokens, or undefined for all. A masked
  /// LM is asked for 15 % of its tokens only, and the head is most of a small model's work.
  at::Tensor wanted;
  /// What a language-model head should answer there, [C, T or M] int64, kIgnore where nothing is asked (loss.h). Told,
  /// the model may give Output::loss instead of logits; undefined: it must not.
  at::Tensor answers;

  /// What the first `bottom_layers` layers made of the source (Model::bottom), [C, T, H]; undefined: start from the
  /// ids.
  at::Tensor bottom;
  int bottom_layers = 0;

  std::shared_ptr<const Packing> target_packing;  ///< decoder input of an encoder-decoder; same sequences
  at::Tensor target_ids;                          ///< [C, Tt]
};

struct Output {
  /// [C, B, labels] for sequence classification; [C, T, labels] for token classification; [C, T, 2] (start, end) for
  /// question answering; [C, T or M, V] for language models (of the target where there is one); as it likes for a
  /// head with a module of its own. Undefined for Head::kNone.
  at::Tensor logits;
  at::Tensor hidden;     ///< [C, T, H] the last hidden states (of the decoder where there is one)
  at::Tensor loss = {};  ///< [C] the cross entropy of Batch::answers, where there are no logits
};

/// A network: a Layout and a pure function of (params, batch, dropout). Holds no values. Immutable but for
/// `layout().freeze`, which is called before Params are made. What a whole family has in common stands in ModelFamily.
///
///     auto model = make_model(config, Head::kSequenceClassification);
///     Params params(model->layout(), {.clients = 8, .gradients = true});
///     at::Tensor logits = model->forward(params, batch, dropout).logits;
class Model {
 public:
  explicit Model(ModelConfig config, Head head) : config_(std::move(config)), head_(head) {}
  virtual ~Model() = default;

  virtual Output forward(const Params& params, const Batch& batch, Dropout& dropout) const = 0;
  /// The logits of `forward` without dropout and gradients, up to rounding; a model may leave out what does not reach
  /// them, and Output::hidden then.
  virtual Output answer(const Params& params, const Batch& batch) const;

  /// What the embeddings and the first `count` layers make of a batch, without dropout: [C, T, H]. InternalError when
  /// the model cannot be cut there (see `cuts`).
  virtual at::Tensor bottom(const Params& params, const Batch& batch, int count) const;
  /// After how many layers, at most, the model can be cut so that `forward` goes on from Batch::bottom.
  virtual int cuts() const { return 0; }

  /// The table that Batch::ids are looked up in, when nothing else reads it (no head is tied to it) and training asks
  /// for no other ids than the data has; else null.
  virtual const Embedding* words() const { return nullptr; }

  /// Where adapters, low-rank updates and prefixes can be attached; empty for networks that are no transformers.
  virtual std::vector<LayerSlots> slots() { return {}; }

  /// The number of layers that can be frozen or adapted; layer i holds the parameters with ParamSpec::layer == i.
  virtual int layers() const = 0;
  /// The longest sequence the model can read, or 0 when there is no limit.
  virtual std::int64_t max_length() const = 0;
  virtual std::int64_t vocabulary() const = 0;
  /// H, the width of the hidden states.
  virtual std::int64_t width() const = 0;

  /// Whether a parameter belongs to the last layer of a classifier or of a head with a module: what adapters train
  /// besides themselves. False for everything in a language model.
  bool is_answer(const ParamSpec& spec) const;

  const Layout& layout() const { return layout_; }
  Layout& layout() { return layout_; }
  const ModelConfig& config() const { return config_; }
  Head head() const { return head_; }

 protected:
  /// Gives the network the head's own module. False: the head has none, and the family builds it.
  bool add_module(double deviation);
  /// Marks a layer of the head that `is_answer` is true for.
  void mark_answer(const Linear& layer);

  Layout layout_;
  ModelConfig config_;
  Head head_;
  std::unique_ptr<const HeadModule> module_;  // null: the family computes the head

 private:
  std::set<int> answers_;  // parameters by their index in the layout
};

/// What a decoder remembers between two tokens.
struct DecodeState {
  struct Layer {
    KeyValueCache self;
    KeyValueCache cross;  ///< of an encoder-decoder: the source, never changed
  };
  std::vector<Layer> layers;
  at::Tensor positions;     ///< [N] how many tokens each sequence has consumed
  std::int64_t tokens = 0;  ///< how many steps the decoder of an encoder-decoder has made
  at::Tensor logits;        ///< [N, V] of the next token

  /// Sequence i continues what sequence rows[i] was (int64 [M]).
  void reorder(const at::Tensor& rows);
};

/// A model that can write: one token at a time, with a key/value cache. Works on C = 1 (Params::client).
class GenerativeModel : public Model {
 public:
  using Model::Model;

  /// Reads the prompts (decoder-only) or the sources and the start token (encoder-decoder) of `batch`.
  virtual DecodeState begin(const Params& params, const Batch& batch) const = 0;
  /// Consumes one token a sequence, ids [N], and leaves the next logits in the state.
  virtual void advance(const Params& params, DecodeState& state, const at::Tensor& ids) const = 0;
  /// True for BART and T5, where the generated text is a sequence of its own and starts with decoder_start_token_id.
  virtual bool has_encoder() const = 0;
};

/// What a language model's head makes of the hidden rows [C, M, H] that are asked for.
Output language_output(const Params& params, const LanguageHead& head, const Batch& batch, const at::Tensor& rows,
                       const at::Tensor& hidden);

/// `spec` with what a layer's prefix holds.
AttentionSpec with_prefix(AttentionSpec spec, const Params& params, const Prefix& prefix);

/// Makes the network that `config` describes, by its model_type, with the given head. DataError naming the
/// architectures Chorus has when the type is unknown, ConfigError when the type has no such head.
std::unique_ptr<Model> make_model(const ModelConfig& config, Head head);
/// The head that config.json's "architectures" names; DataError when it names none that Chorus has.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace chorus::inline models

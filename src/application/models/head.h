#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config/registry.h"

namespace at {
class Tensor;
}

namespace chorus::inline ops {
class Dropout;
}
namespace chorus::inline tensor {
class Layout;
class Params;
}  // namespace chorus::inline tensor

namespace chorus::inline models {

class ModelConfig;
struct Batch;
struct Output;

/// What a head needs to know about its network.
struct HeadInput {
  Layout& layout;             ///< gets the head's parameters, in layer kHeadLayer
  const ModelConfig& config;  ///< labels, among others
  std::int64_t width;         ///< of the hidden states
  double deviation;           ///< standard deviation of new weights
};

/// A head for any encoder: adds its parameters to the layout when it is constructed, and turns hidden states into an
/// output. Immutable.
class HeadModule {
 public:
  virtual ~HeadModule() = default;
  /// `hidden` is [C, T, H], the last hidden states of the packed tokens.
  virtual Output apply(const Params& params, const Batch& batch, const at::Tensor& hidden, Dropout& dropout) const = 0;
};

/// What the rest of Chorus knows about a kind of head.
struct HeadTraits {
  const char* name;            ///< "sequence_classification"
  const char* summary;         ///< one line for `chorus list head`
  const char* class_ending;    ///< ending of Hugging Face's class names: "ForSequenceClassification"
  const char* peft_task = "";  ///< PEFT's task_type; empty: PEFT has none
  bool labelled = false;       ///< its outputs are the labels of config.json
  bool per_sequence = false;   ///< logits are [C, B, outputs]; otherwise there is a row per token
  bool fuses_loss = false;     ///< with Batch::answers, the model may return Output::loss instead of logits
  bool generates = false;      ///< gives logits of every next token: a GenerativeModel with it can generate
  /// The head's own module; null: the model families build it, each with its own parameter names.
  std::unique_ptr<HeadModule> (*module)(const HeadInput&) = nullptr;
};

/// What a network outputs. Can be copied and compared; `->` gives its traits.
///
/// A new head is a HeadTraits with a module and one registration. It then works with every family that takes modules
/// (ModelFamily::takes_modules), is saved and loaded under its class ending, and appears in `chorus list head`:
///
///     constexpr HeadTraits kLength{.name = "length", .summary = "...", .class_ending = "ForLength", .module =
///     make_it}; const HeadRegistration kRegistered(kLength); const auto model = make_model(config, Head(kLength));
class Head {
 public:
  static constexpr std::string_view kKind = "head";

  static const Head kNone;  ///< hidden states only
  static const Head kSequenceClassification, kTokenClassification, kQuestionAnswering, kMaskedLm, kCausalLm, kSeq2Seq;

  /// The traits must live as long as the program.
  constexpr explicit Head(const HeadTraits& traits) : traits_(&traits) {}

  constexpr const HeadTraits* operator->() const { return traits_; }
  friend constexpr bool operator==(Head a, Head b) { return a.traits_ == b.traits_; }

 private:
  const HeadTraits* traits_;
};

using Heads = Registry<Head>;

/// Registers a head before main() starts.
class HeadRegistration : Registration<Heads> {
 public:
  explicit HeadRegistration(const HeadTraits& traits)
      : Registration(traits.name, traits.summary, [&traits] { return std::make_unique<Head>(traits); }) {}
};

/// Every registered head, by name.
std::vector<Head> all_heads();
inline const char* name_of(Head head) { return head->name; }
/// ConfigError that lists the heads for an unknown name.
Head head_named(const std::string& name);

namespace head_traits {

inline constexpr HeadTraits kNone{.name = "none", .summary = "hidden states without a head", .class_ending = "Model"};
inline constexpr HeadTraits kSequenceClassification{.name = "sequence_classification",
                                                    .summary = "one class per text; with one label a number",
                                                    .class_ending = "ForSequenceClassification",
                                                    .peft_task = "SEQ_CLS",
                                                    .labelled = true,
                                                    .per_sequence = true};
inline constexpr HeadTraits kTokenClassification{.name = "token_classification",
                                                 .summary = "one class per token",
                                                 .class_ending = "ForTokenClassification",
                                                 .peft_task = "TOKEN_CLS",
                                                 .labelled = true};
inline constexpr HeadTraits kQuestionAnswering{.name = "question_answering",
                                               .summary = "whether an answer starts or ends at a token",
                                               .class_ending = "ForQuestionAnswering",
                                               .peft_task = "QUESTION_ANS"};
inline constexpr HeadTraits kMaskedLm{
    .name = "masked_lm", .summary = "the hidden tokens of a text", .class_ending = "ForMaskedLM", .fuses_loss = true};
inline constexpr HeadTraits kCausalLm{.name = "causal_lm",
                                      .summary = "the next token",
                                      .class_ending = "ForCausalLM",
                                      .peft_task = "CAUSAL_LM",
                                      .fuses_loss = true,
                                      .generates = true};
inline constexpr HeadTraits kSeq2Seq{.name = "seq2seq",
                                     .summary = "the next token of a text that follows from another",
                                     .class_ending = "ForConditionalGeneration",
                                     .peft_task = "SEQ_2_SEQ_LM",
                                     .generates = true};

}  // namespace head_traits

inline constexpr Head Head::kNone{head_traits::kNone};
inline constexpr Head Head::kSequenceClassification{head_traits::kSequenceClassification};
inline constexpr Head Head::kTokenClassification{head_traits::kTokenClassification};
inline constexpr Head Head::kQuestionAnswering{head_traits::kQuestionAnswering};
inline constexpr Head Head::kMaskedLm{head_traits::kMaskedLm};
inline constexpr Head Head::kCausalLm{head_traits::kCausalLm};
inline constexpr Head Head::kSeq2Seq{head_traits::kSeq2Seq};

}  // namespace chorus::inline models

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/record.h"

namespace chorus::inline synthetic {

/// The corpus to generate. With the defaults a small encoder learns something but not everything.
struct SyntheticConfig {
  Formulation formulation = Formulation::kTextClassification;
  std::uint64_t examples = 10000;  ///< training examples
  std::uint64_t validation_examples = 0;
  std::uint64_t test_examples = 2000;  ///< all splits share one generator
  std::uint64_t labels = 0;            ///< classes: 2-24 topics, 2-3 pair labels, 1-5 entity types; 0: 20, 3 and 5
  std::uint64_t clients = 100;         ///< 1 to 10,000,000; their activity is log-normal
  std::uint64_t sources = 8;           ///< silos (hospital, bank, ...), 1-10; client c writes at source c mod sources
  double activity = 1.7;      ///< sigma of the log of a client's activity, 0-4; 1.7 over 1,000 clients spans > 10^3
  double skew = 0.5;          ///< 0-1: how much sources and clients differ in labels, words and habits; 0 is IID
  double overlap = 0.55;      ///< 0-0.95: share of words from other classes, or contexts from other entities
  double label_noise = 0.03;  ///< 0-0.5: share of wrong labels (classification, pairs)
  double typos = 0.5;         ///< 0-1: rate of typing errors, where they do not shift offsets
  double drift = 0.5;         ///< 0-1: how much subjects and words change over the twelve months
  std::uint64_t seed = 1;     ///< determines the whole corpus
};

/// ConfigError naming the field, its value and the allowed range.
void validate(const SyntheticConfig& config);

/// A computed corpus: example i is a pure function of (config without its sizes, split, i), so any example can be
/// generated alone, in any order, on any machine, and a smaller corpus is a prefix of a larger one.
///
/// Every record has `client` ("u0017"), `source` ("hospital") and `time` (seconds since 1970, within the year
/// 2023). Label and client are dependent when `skew` > 0, so that natural partitions (by client, by source) have label,
/// feature and quantity skew, while labels stay balanced over the whole corpus. The formulations:
///
///  - text classification: one to four sentences about a topic, mixed with words of sibling topics and with contrasts
///    ("not about the sail but about the engine");
///  - pair classification: an event, and a sentence derived from it by rules (voice, synonyms, dropped details:
///    entailed; new details: neutral; swapped roles, other details, negation: contradicted). The words of a pair reveal
///    almost nothing, their comparison everything;
///  - pair regression: the same, scored 0 to 5 by how much of the event is shared;
///  - tagging: PER, ORG, LOC, PROD, DATE in IOB2, with names that only their context decides ("Ford", "May", "York");
///  - span extraction: facts about two or three people, with pronouns; exact spans in code points;
///  - seq2seq: a report with asides, and its headline;
///  - language model: short messages in the user's dialect, with words and subjects that drift over the year.
///
/// Thread-safe: `make` is const and keeps no state.
///
///     SyntheticCorpus corpus({.formulation = Formulation::kSeq2Seq, .seed = 7});
///     Record record;
///     corpus.make(Split::kTrain, 12, record);
class SyntheticCorpus {
 public:
  explicit SyntheticCorpus(const SyntheticConfig& config);  ///< validates
  ~SyntheticCorpus();
  SyntheticCorpus(SyntheticCorpus&&) noexcept;
  SyntheticCorpus& operator=(SyntheticCorpus&&) noexcept;

  std::uint64_t size(Split split) const;
  /// Class names in id order; empty for formulations without classes.
  const std::vector<std::string>& labels() const;
  /// Fills `record` (cleared first) with example `index` of the split; the index may exceed size().
  void make(Split split, std::uint64_t index, Record& record) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

/// The corpus as a stream of training, validation and test examples, each with its split. Ids include it: "train-12".
/// The label vocabulary is given, so that label ids do not depend on the order of examples.
std::unique_ptr<RecordReader> synthetic_corpus(const SyntheticConfig& config);

/// Parses a configuration given in place of a file name: "formulation=seq2seq,examples=500,seed=7" (format: synthetic),
/// with the names of SyntheticConfig; missing ones as in `defaults`. ConfigError for an unknown name (with the nearest
/// one), an invalid number, or a value out of range.
SyntheticConfig parse_synthetic(std::string_view text, const SyntheticConfig& defaults = {});

}  // namespace chorus::inline synthetic

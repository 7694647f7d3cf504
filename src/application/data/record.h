#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace chorus::inline data {

/// The kind of problem. Names in files and configurations are FedNLP's where it has one.
enum class Formulation {
  kTextClassification,  ///< "text_classification": text -> label
  kPairClassification,  ///< "pair_classification": text, second -> label
  kPairRegression,      ///< "pair_regression": text, second -> score
  kSequenceTagging,     ///< "seq_tagging": words -> tags, one each
  kSpanExtraction,      ///< "span_extraction": text (the context), second (the question) -> answers
  kSeq2Seq,             ///< "seq2seq": text (source) -> second (target)
  kLanguageModel        ///< "language_model": text
};

const char* name_of(Formulation formulation);
/// ConfigError that lists the names for an unknown one.
Formulation formulation_named(const std::string& name);

/// Which part of a corpus an example belongs to.
enum class Split : std::uint8_t { kTrain, kValidation, kTest };
inline constexpr std::size_t kSplits = 3;

const char* name_of(Split split);

/// A gold answer: characters [begin, end) of the context in code points, as in SQuAD. A seq2seq record lists the
/// references beyond `second` here (begin = end = -1).
struct GoldAnswer {
  std::string text;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// One example on its way from a reader into a Dataset. Only the fields of its formulation are set. All text is valid
/// UTF-8 (readers replace invalid bytes).
struct Record {
  std::string id;                                           ///< the source's own identifier, or empty
  std::string text;                                         ///< the text; the first sentence; the context; the source
  std::string second;                                       ///< the second sentence; the question; the target
  std::string label;                                        ///< class name
  double score = std::numeric_limits<double>::quiet_NaN();  ///< regression target
  std::vector<std::string> words;
  std::vector<std::string> tags;  ///< one per word
  std::vector<GoldAnswer> answers;
  std::string client;           ///< who wrote it, or empty
  std::string source;           ///< which sub-corpus, author or language it comes from, or empty
  std::int64_t time = kNoTime;  ///< seconds since 1970, or any order
  std::optional<Split> split;   ///< set only by files that hold several splits

  /// Clears every field and keeps the memory.
  void clear();
};

/// What a reader changed in its input, as numbers of records.
struct ReadReport {
  std::uint64_t records = 0;         ///< returned
  std::uint64_t empty = 0;           ///< without text (see EmptyText in dataset_builder.h)
  std::uint64_t replaced_bytes = 0;  ///< invalid UTF-8 sequences replaced
  std::uint64_t misaligned = 0;      ///< answers that are not at their offset
  std::uint64_t realigned = 0;       ///< of these, moved to the nearest occurrence
  std::uint64_t unaligned = 0;       ///< of these, dropped
  std::vector<std::string> notes;    ///< messages for the user, each naming its file

  void add(const ReadReport& other);
};

/// A stream of records: a file or a generator. One pass, one thread.
///
///     for (Record record; reader->next(record);) builder.add(record);
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Fills `record` with the next example; false at the end. DataError naming file and line.
  virtual bool next(Record& record) = 0;
  /// "file:line" of the last record, for messages; "" without a file.
  virtual std::string where() const { return {}; }
  /// The formulation, where the file states one. Valid from the start.
  virtual std::optional<Formulation> formulation() const { return {}; }
  /// The stored label vocabulary in id order, where the file has one (then authoritative). Valid from the start.
  virtual std::span<const std::string> label_vocabulary() const { return {}; }
  /// Whether a record's position is its identity (FedNLP's partition files refer to it), so that none may be skipped.
  virtual bool positions_are_ids() const { return false; }
  virtual ReadReport report() const { return {}; }
};

}  // namespace chorus::inline data

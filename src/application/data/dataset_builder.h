#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus::inline data {

/// What to do with an example without text (words, context), or with whitespace only. Counted in ReadReport::empty.
/// Files whose positions are ids (FedNLP) always keep it.
enum class EmptyText { kSkip, kKeep, kError };

struct BuildOptions {
  Formulation formulation = Formulation::kTextClassification;
  /// Class labels (tags, for sequence tagging) in id order; empty: from the file or the data.
  std::vector<std::string> label_vocabulary = {};
  /// Whether a label outside the training data is appended to the vocabulary or an error.
  bool allow_new_labels = false;
  EmptyText empty = EmptyText::kSkip;
  /// At most this many examples per split; 0: no limit.
  std::size_t limit = 0;
};

/// Turns records into a Dataset.
///
///     DatasetBuilder builder({.formulation = Formulation::kTextClassification});
///     builder.read(*reader, Split::kTrain);
///     Dataset data = std::move(builder).finish();
class DatasetBuilder {
 public:
  explicit DatasetBuilder(BuildOptions options);

  /// Adds all records of `reader`; those without their own split go to `split`, those without a client to `client`
  /// (empty: to none).
  void read(RecordReader& reader, Split split, const std::string& client = {});
  /// Adds one record; `where` names its location in messages. DataError when the numbers of words and tags differ, or
  /// when a given vocabulary lacks its label.
  void add(const Record& record, Split split, const std::string& where = {});
  bool full(Split split) const;

  /// Checks and orders the vocabulary and returns the dataset, which empties the builder. DataError with the first
  /// location of a label that occurs only outside the training split, unless allowed or given.
  Dataset finish() &&;

 private:
  /// A vocabulary under construction: the first occurrence of each name in each split.
  struct Vocabulary {
    const char* what = "label";
    bool fixed = false;
    std::vector<std::array<std::uint64_t, kSplits>> first;  // example index + 1, 0 for never
    std::vector<std::string> places;  // location of the first occurrence outside train, else empty
  };

  std::int32_t name_id(StringTable& table, Vocabulary& vocabulary, const std::string& name, Split split);
  void order(StringTable& table, Vocabulary& vocabulary, std::vector<std::int32_t>& column);
  void fix_vocabulary(std::span<const std::string> names);
  void add_words(const Record& record, Split split);
  void add_answers(const Record& record);
  bool leave_out(const Record& record);
  void hash(const Record& record, Split split);
  std::string place() const;

  BuildOptions options_;
  Dataset data_;
  Vocabulary labels_;
  Vocabulary tags_;
  const RecordReader* reader_ = nullptr;  // source of locations, or
  const std::string* where_ = nullptr;    // the location itself
  std::string hashed_;
};

}  // namespace chorus::inline data

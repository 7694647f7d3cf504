#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus {

/// What to do with an example that has no text (no words, no context) or only white space. Whatever is done is counted
/// in ReadReport::empty. Files whose positions are ids (FedNLP) always keep it.
enum class EmptyText { kSkip, kKeep, kError };

struct BuildOptions {
  Formulation formulation = Formulation::kTextClassification;
  /// The class labels (tags, for sequence tagging) in id order; empty: learnt from the data, or given by the file.
  std::vector<std::string> label_vocabulary = {};
  /// Whether a label that no training example has is added to the vocabulary (after the others) or is an error.
  bool allow_new_labels = false;
  EmptyText empty = EmptyText::kSkip;
  /// At most this many examples of each split; 0: no limit.
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

  /// Adds all records of `reader`; those that do not name a split themselves go to `split`.
  void read(RecordReader& reader, Split split);
  /// Adds one record; `where` names its place in messages. Throws DataError when words and tags differ in number, or
  /// when a given vocabulary lacks its label.
  void add(const Record& record, Split split, const std::string& where = {});
  bool full(Split split) const;

  /// Checks the vocabulary (a label that only occurs outside the training split is a DataError with its first place,
  /// unless allowed or given), orders it, and hands the dataset over. The builder is then empty.
  Dataset finish() &&;

 private:
  /// A vocabulary being learnt: for each name where it was met first, in each split.
  struct Vocabulary {
    const char* what = "label";
    bool fixed = false;
    std::vector<std::array<std::uint64_t, kSplits>> first;  // example number + 1, 0 when never
    std::vector<std::string> places;                        // of the first appearance outside train, else empty
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
  const RecordReader* reader_ = nullptr;  // whose place to ask for, or
  const std::string* where_ = nullptr;    // the place itself
  std::string hashed_;
};

}  // namespace chorus

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "application/data/record.h"
#include "application/data/string_store.h"
#include "core/base/fingerprint.h"

namespace chorus::inline files {
class MappedFile;
}

namespace chorus::inline data {

/// The words of one example, views into the dataset's table of distinct words.
class WordList {
 public:
  WordList() = default;
  WordList(std::span<const std::int32_t> ids, const StringTable* table) : ids_(ids), table_(table) {}
  std::size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  std::string_view operator[](std::size_t i) const { return table_->at(ids_[i]); }
  /// Ids in Dataset::words(): equal ids mean equal words.
  std::span<const std::int32_t> ids() const { return ids_; }

 private:
  std::span<const std::int32_t> ids_;
  const StringTable* table_ = nullptr;
};

/// A GoldAnswer that does not own its text.
struct AnswerView {
  std::string_view text;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Dataset;

/// The gold answers of one example (seq2seq: the references beyond the first).
class AnswerList {
 public:
  AnswerList() = default;
  AnswerList(const Dataset* data, std::size_t begin, std::size_t end) : data_(data), begin_(begin), end_(end) {}
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  AnswerView operator[](std::size_t i) const;

 private:
  const Dataset* data_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// One example of a Dataset. Cheap to create; its views live as long as the Dataset. Ids are -1 where absent.
struct Example {
  std::string_view id;
  std::string_view text;    ///< the text; the first sentence; the context; the source
  std::string_view second;  ///< the second sentence; the question; the target
  std::int32_t label = -1;  ///< id in Dataset::labels()
  double score = std::numeric_limits<double>::quiet_NaN();
  WordList words;
  std::span<const std::int32_t> tags;  ///< ids in Dataset::tags(), one per word (empty when unlabelled)
  AnswerList answers;
  std::int32_t client = -1;  ///< id in Dataset::clients()
  std::int32_t source = -1;  ///< id in Dataset::sources()
  std::int64_t time = kNoTime;
  Split split = Split::kTrain;
};

/// An immutable, columnar set of examples: texts in arenas; labels, clients and sources as ids into tables of distinct
/// names. A million examples take a few hundred heap blocks. The index of an example is its identity: partitions,
/// caches and FedNLP's files use it. Thread-safe.
///
///     Dataset data = open_dataset({.train = {"train.jsonl.gz"}, .test = {"test.jsonl.gz"}});
///     for (std::uint32_t i : data.split(Split::kTrain)) use(data.at(i).text, data.label_ids()[i]);
class Dataset {
 public:
  std::size_t size() const { return splits_.size(); }
  Formulation formulation() const { return formulation_; }
  Example at(std::size_t i) const;
  std::string_view text(std::size_t i) const { return text_.at(i, arena_); }
  std::string_view second(std::size_t i) const { return second_.at(i, arena_); }

  /// Indices of a split, ascending.
  std::span<const std::uint32_t> split(Split split) const { return members_[static_cast<std::size_t>(split)]; }

  /// Columns with one entry per example, for partitioners. A column that no example uses is empty.
  std::span<const std::int32_t> label_ids() const { return label_ids_; }
  std::span<const std::int32_t> client_ids() const { return client_ids_; }
  std::span<const std::int32_t> source_ids() const { return source_ids_; }
  std::span<const std::int64_t> times() const { return times_; }
  std::span<const double> scores() const { return scores_; }
  std::span<const Split> splits() const { return splits_; }
  WordList words(std::size_t i) const;
  std::span<const std::int32_t> tag_ids(std::size_t i) const;

  /// Names of the ids. Label and tag vocabularies are the file's own where it stores one (FedNLP), else in order of
  /// first appearance, train before validation before test.
  const StringTable& labels() const { return labels_; }
  const StringTable& tags() const { return tags_; }
  const StringTable& clients() const { return clients_; }
  const StringTable& sources() const { return sources_; }
  const StringTable& words() const { return words_; }

  /// Hash of the content and its order (texts, labels, words, splits, ...): the key of caches.
  Fingerprint fingerprint() const { return fingerprint_; }
  /// What the readers skipped, replaced or moved.
  const ReadReport& report() const { return report_; }
  /// Memory in bytes, for reports.
  std::uint64_t memory() const;

 private:
  friend class DatasetBuilder;
  friend class AnswerList;
  friend class DatasetFile;

  /// Lists of varying length, concatenated: example i has [begin(i), begin(i + 1)). Empty when no example has entries.
  struct Ragged {
    std::vector<std::uint64_t> ends;
    std::pair<std::size_t, std::size_t> range(std::size_t i) const;
    void close(std::size_t index, std::size_t end, bool any);
  };

  std::shared_ptr<const MappedFile> file_;  // holds the arena when it was opened from a cache
  Formulation formulation_ = Formulation::kLanguageModel;
  StringArena arena_;
  StringColumn id_, text_, second_;
  std::vector<std::int32_t> label_ids_, client_ids_, source_ids_;
  std::vector<double> scores_;
  std::vector<std::int64_t> times_;
  std::vector<Split> splits_;
  std::array<std::vector<std::uint32_t>, kSplits> members_;
  StringTable labels_, tags_, clients_, sources_, words_;
  std::vector<std::int32_t> word_ids_, tag_ids_;
  Ragged word_ends_, tag_ends_, answer_ends_;
  StringColumn answer_texts_;
  std::vector<std::int64_t> answer_spans_;  // begin, end of each answer
  Fingerprint fingerprint_;
  ReadReport report_;
};

}  // namespace chorus::inline data

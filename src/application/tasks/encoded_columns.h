#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chorus::inline tasks {

/// The label of a token that is not counted, as stored in a column.
inline constexpr std::int32_t kIgnored = -100;

template <typename T>
using OwnedColumn = std::vector<T>;
template <typename T>
using ColumnView = std::span<const T>;

/// What one entry of a column belongs to.
enum class ColumnUnit { kExample, kRow, kToken, kTargetToken, kCounts };

/// What encoding lost, summed over the examples.
enum class EncodeCount : std::size_t {
  kTruncated,       ///< rows truncated to the maximum length (pairs and tagging: also those that fit exactly)
  kLostWords,       ///< tagging: words without a token (cut off, or encoded to nothing)
  kLostAnswers,     ///< QA: answers that no window contains completely
  kInexactAnswers,  ///< QA: answers that begin or end inside a token
};
inline constexpr std::size_t kEncodeCounts = 4;

/// Encoded examples, in columns. A row is one sequence for the model. An example has one row (classification, tagging,
/// seq2seq), several (the windows of question answering), or none (a text without tokens). Columns that a task does not
/// use are empty. `List` is OwnedColumn while encoding, ColumnView when reading from memory or a mapped file.
template <template <typename> class List>
struct EncodedColumns {
  List<std::uint32_t> examples;     ///< index in the Dataset, ascending
  List<std::uint64_t> example_end;  ///< rows of example e: [example_end[e - 1], example_end[e])
  List<std::uint64_t> row_end;      ///< tokens of row r: [row_end[r - 1], row_end[r])
  List<std::int32_t> ids;
  List<std::uint8_t> types;        ///< token types; empty when all are 0
  List<std::int32_t> labels;       ///< class of a row; kIgnore when it has none
  List<float> scores;              ///< regression target of a row; NaN when it has none
  List<std::int32_t> tags;         ///< tagging: label of a token, or kIgnore
  List<std::int32_t> words;        ///< tagging: index of a token's word in the example, or -1
  List<std::uint32_t> char_begin;  ///< QA: range of code points of the context that a token covers
  List<std::uint32_t> char_end;
  List<std::uint32_t> context_begin;  ///< QA: range of tokens in the row that belong to the context
  List<std::uint32_t> context_end;
  List<std::int32_t> starts;        ///< QA: index of the answer's first token in the row, or kIgnore
  List<std::int32_t> ends;          ///< index of its last token, inclusive
  List<std::uint64_t> target_end;   ///< seq2seq: target tokens of row r, like row_end
  List<std::int32_t> target_ids;    ///< the decoder's target, including the end token
  List<std::uint64_t> counts = {};  ///< by EncodeCount

  /// Calls visit(name, member pointer, unit, accumulates) for every column, in file order. `accumulates`: the entries
  /// are ascending ends.
  template <typename Visit>
  static void visit(Visit&& visit) {
    using C = EncodedColumns;
    visit("examples", &C::examples, ColumnUnit::kExample, false);
    visit("example_end", &C::example_end, ColumnUnit::kExample, true);
    visit("row_end", &C::row_end, ColumnUnit::kRow, true);
    visit("ids", &C::ids, ColumnUnit::kToken, false);
    visit("types", &C::types, ColumnUnit::kToken, false);
    visit("labels", &C::labels, ColumnUnit::kRow, false);
    visit("scores", &C::scores, ColumnUnit::kRow, false);
    visit("tags", &C::tags, ColumnUnit::kToken, false);
    visit("words", &C::words, ColumnUnit::kToken, false);
    visit("char_begin", &C::char_begin, ColumnUnit::kToken, false);
    visit("char_end", &C::char_end, ColumnUnit::kToken, false);
    visit("context_begin", &C::context_begin, ColumnUnit::kRow, false);
    visit("context_end", &C::context_end, ColumnUnit::kRow, false);
    visit("starts", &C::starts, ColumnUnit::kRow, false);
    visit("ends", &C::ends, ColumnUnit::kRow, false);
    visit("target_end", &C::target_end, ColumnUnit::kRow, true);
    visit("target_ids", &C::target_ids, ColumnUnit::kTargetToken, false);
    visit("counts", &C::counts, ColumnUnit::kCounts, false);
  }
};

/// The columns while a task fills them: push the entries of a row, then call `end_row`; after an example's rows, call
/// `end_example`. Not thread-safe.
struct EncodedPart : EncodedColumns<OwnedColumn> {
  EncodedPart() { counts.assign(kEncodeCounts, 0); }
  void end_row() { row_end.push_back(ids.size()); }
  void end_target() { target_end.push_back(target_ids.size()); }
  void end_example(std::uint32_t example) {
    examples.push_back(example);
    example_end.push_back(row_end.size());
  }
  void count(EncodeCount what, std::uint64_t more = 1) { counts[static_cast<std::size_t>(what)] += more; }
};

/// Concatenates the parts and empties them.
EncodedPart join(std::vector<EncodedPart> parts);

}  // namespace chorus::inline tasks

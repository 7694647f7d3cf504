#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "application/tasks/encoded_columns.h"
#include "core/files/files.h"

namespace chorus::inline tasks {

/// Valid values in encoded data: ids below `vocabulary`, labels and tags below `labels` (0: there are none).
struct EncodedLimits {
  std::int64_t vocabulary = 0;
  std::int64_t labels = 0;
};

/// One split of a dataset as a task feeds it to a model: token ids and everything the loss needs, in columns, in memory
/// or in a mapped file (encoded_file.h). Immutable; safe to read from many threads.
///
///     std::shared_ptr<const EncodedDataset> encoded = encode_split(task, data, Split::kTrain).data;
///     for (std::uint32_t row : encoded->rows_of(data.split(Split::kTrain))) use(encoded->ids(row));
class EncodedDataset {
 public:
  /// Takes over the columns. DataError if their lengths, ends or values are inconsistent.
  EncodedDataset(EncodedPart columns, const EncodedLimits& limits);
  /// The columns are views into `file`, which is kept open.
  EncodedDataset(EncodedColumns<ColumnView> columns, MappedFile file, const EncodedLimits& limits);
  EncodedDataset(const EncodedDataset&) = delete;
  EncodedDataset& operator=(const EncodedDataset&) = delete;

  std::size_t rows() const { return view_.row_end.size(); }
  std::size_t tokens() const { return view_.ids.size(); }
  /// Dataset indices of the encoded examples, ascending.
  std::span<const std::uint32_t> examples() const { return view_.examples; }
  std::uint64_t count(EncodeCount what) const { return view_.counts[static_cast<std::size_t>(what)]; }

  /// The rows [begin, end) of an example. DataError if it was not encoded (another split).
  std::pair<std::uint32_t, std::uint32_t> rows_of(std::uint32_t example) const;
  /// All rows of some examples, in their order.
  std::vector<std::uint32_t> rows_of(std::span<const std::uint32_t> examples) const;
  /// The example of a row.
  std::uint32_t example_of(std::uint32_t row) const;

  std::size_t length(std::uint32_t row) const { return end(view_.row_end, row) - begin(view_.row_end, row); }
  std::span<const std::int32_t> ids(std::uint32_t row) const { return tokens_of(view_.ids, row); }
  bool has_types() const { return !view_.types.empty(); }
  std::span<const std::uint8_t> types(std::uint32_t row) const { return tokens_of(view_.types, row); }
  std::span<const std::int32_t> tags(std::uint32_t row) const { return tokens_of(view_.tags, row); }
  std::span<const std::int32_t> words(std::uint32_t row) const { return tokens_of(view_.words, row); }
  std::span<const std::uint32_t> char_begin(std::uint32_t row) const { return tokens_of(view_.char_begin, row); }
  std::span<const std::uint32_t> char_end(std::uint32_t row) const { return tokens_of(view_.char_end, row); }
  std::span<const std::int32_t> target_ids(std::uint32_t row) const {
    return view_.target_ids.subspan(begin(view_.target_end, row),
                                    end(view_.target_end, row) - begin(view_.target_end, row));
  }
  std::int32_t label(std::uint32_t row) const { return view_.labels[row]; }
  float score(std::uint32_t row) const { return view_.scores[row]; }
  /// Tokens [first, second) of the row belong to the context.
  std::pair<std::uint32_t, std::uint32_t> context(std::uint32_t row) const {
    return {view_.context_begin[row], view_.context_end[row]};
  }
  /// Indices of the first and the last token of the answer; kIgnore if the row is not counted.
  std::pair<std::int32_t, std::int32_t> answer(std::uint32_t row) const { return {view_.starts[row], view_.ends[row]}; }

  const EncodedColumns<ColumnView>& columns() const { return view_; }
  /// Whether the data is in a mapped file.
  bool mapped() const { return file_.has_value(); }

 private:
  static std::size_t begin(ColumnView<std::uint64_t> ends, std::uint32_t i) { return i == 0 ? 0 : ends[i - 1]; }
  static std::size_t end(ColumnView<std::uint64_t> ends, std::uint32_t i) { return ends[i]; }
  template <typename T>
  std::span<const T> tokens_of(ColumnView<T> column, std::uint32_t row) const {
    if (column.empty()) return {};
    return column.subspan(begin(view_.row_end, row), length(row));
  }
  void check_columns(const EncodedLimits& limits) const;

  EncodedPart owned_;
  std::optional<MappedFile> file_;
  EncodedColumns<ColumnView> view_;
};

/// A client's training data: some rows of encoded data.
struct ClientData {
  std::shared_ptr<const EncodedDataset> data;
  std::vector<std::uint32_t> rows;
};

}  // namespace chorus::inline tasks

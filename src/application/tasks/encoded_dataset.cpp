#include "application/tasks/encoded_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

[[noreturn]] void broken(const char* column, const std::string& why) {
  throw DataError(fmt::format("the column '{}' of encoded data {}", column, why));
}

void check_range(const char* column, ColumnView<std::int32_t> values, std::int64_t below, bool may_be_ignored) {
  std::int32_t low = 0, high = -1;
  for (const std::int32_t value : values) {
    const std::int32_t seen = may_be_ignored && value == kIgnored ? 0 : value;
    low = std::min(low, seen);
    high = std::max(high, may_be_ignored && value == kIgnored ? -1 : value);
  }
  if (low < 0 || high >= below) broken(column, fmt::format("has a number outside 0 to {}", below - 1));
}

}  // namespace

EncodedDataset::EncodedDataset(EncodedPart columns, const EncodedLimits& limits) : owned_(std::move(columns)) {
  // Both structs have the same members in the same order.
  view_ = {.examples = owned_.examples,
           .example_end = owned_.example_end,
           .row_end = owned_.row_end,
           .ids = owned_.ids,
           .types = owned_.types,
           .labels = owned_.labels,
           .scores = owned_.scores,
           .tags = owned_.tags,
           .words = owned_.words,
           .char_begin = owned_.char_begin,
           .char_end = owned_.char_end,
           .context_begin = owned_.context_begin,
           .context_end = owned_.context_end,
           .starts = owned_.starts,
           .ends = owned_.ends,
           .target_end = owned_.target_end,
           .target_ids = owned_.target_ids,
           .counts = owned_.counts};
  check_columns(limits);
}

EncodedDataset::EncodedDataset(EncodedColumns<ColumnView> columns, MappedFile file, const EncodedLimits& limits)
    : file_(std::move(file)), view_(columns) {
  check_columns(limits);
}

void EncodedDataset::check_columns(const EncodedLimits& limits) const {
  const std::size_t row_count = view_.row_end.size();
  if (row_count > std::numeric_limits<std::uint32_t>::max()) broken("row_end", "has more than 2^32 rows");
  EncodedColumns<ColumnView>::visit([&](const char* name, auto column, ColumnUnit unit, bool accumulates) {
    const auto values = view_.*column;
    const bool required = unit == ColumnUnit::kExample || unit == ColumnUnit::kCounts ||
                          std::string_view(name) == "row_end" || std::string_view(name) == "ids";
    const std::size_t expected = unit == ColumnUnit::kExample  ? view_.examples.size()
                                 : unit == ColumnUnit::kRow    ? row_count
                                 : unit == ColumnUnit::kToken  ? view_.ids.size()
                                 : unit == ColumnUnit::kCounts ? kEncodeCounts
                                                               : view_.target_ids.size();
    if (values.size() != expected && (required || !values.empty())) {
      broken(name, fmt::format("has {} entries instead of {}", values.size(), expected));
    }
    if (accumulates && !std::is_sorted(values.begin(), values.end())) broken(name, "does not grow");
  });
  const auto last = [](ColumnView<std::uint64_t> ends) { return ends.empty() ? 0 : ends.back(); };
  if (last(view_.example_end) != row_count) broken("example_end", "does not end at the last row");
  if (last(view_.row_end) != view_.ids.size()) broken("row_end", "does not end at the last token");
  if (last(view_.target_end) != view_.target_ids.size()) broken("target_end", "does not end at the last token");
  if (std::adjacent_find(view_.examples.begin(), view_.examples.end(), std::greater_equal<>()) !=
      view_.examples.end()) {
    broken("examples", "is not ascending");
  }
  check_range("ids", view_.ids, limits.vocabulary, false);
  check_range("target_ids", view_.target_ids, limits.vocabulary, false);
  check_range("labels", view_.labels, limits.labels, true);
  check_range("tags", view_.tags, limits.labels, true);
  for (std::size_t r = 0; r < row_count; ++r) {
    const auto size = length(static_cast<std::uint32_t>(r));
    if (size == 0) broken("row_end", "has an empty row");
    if (!view_.context_end.empty() && (view_.context_end[r] > size || view_.context_begin[r] > view_.context_end[r])) {
      broken("context_end", "goes beyond its row");
    }
    for (const auto& places : {view_.starts, view_.ends}) {
      if (places.empty() || places[r] == kIgnored) continue;
      if (places[r] < 0 || static_cast<std::size_t>(places[r]) >= size) broken("starts", "goes beyond its row");
    }
  }
}

std::pair<std::uint32_t, std::uint32_t> EncodedDataset::rows_of(std::uint32_t example) const {
  const auto found = std::lower_bound(view_.examples.begin(), view_.examples.end(), example);
  if (found == view_.examples.end() || *found != example) {
    throw DataError(fmt::format("example {} is not among the {} encoded examples; does it belong to another split?",
                                example, view_.examples.size()));
  }
  const auto place = static_cast<std::uint32_t>(found - view_.examples.begin());
  return {static_cast<std::uint32_t>(begin(view_.example_end, place)),
          static_cast<std::uint32_t>(end(view_.example_end, place))};
}

std::vector<std::uint32_t> EncodedDataset::rows_of(std::span<const std::uint32_t> examples) const {
  std::vector<std::uint32_t> rows;
  rows.reserve(examples.size());
  for (const std::uint32_t example : examples) {
    const auto [first, behind] = rows_of(example);
    for (std::uint32_t row = first; row < behind; ++row) rows.push_back(row);
  }
  return rows;
}

std::uint32_t EncodedDataset::example_of(std::uint32_t row) const {
  const auto found = std::upper_bound(view_.example_end.begin(), view_.example_end.end(), std::uint64_t{row});
  check(found != view_.example_end.end(), "no such row");
  return view_.examples[static_cast<std::size_t>(found - view_.example_end.begin())];
}

}  // namespace chorus::inline tasks

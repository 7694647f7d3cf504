#include "application/tasks/encoded_columns.h"

#include <utility>

namespace chorus::inline tasks {
namespace {

template <typename T>
void append(std::vector<T>& whole, const std::vector<T>& part, ColumnUnit unit, bool accumulates) {
  if (unit == ColumnUnit::kCounts) {
    for (std::size_t i = 0; i < part.size(); ++i) whole[i] = static_cast<T>(whole[i] + part[i]);
  } else if (accumulates) {
    const T base = whole.empty() ? T{} : whole.back();
    for (const T end : part) whole.push_back(static_cast<T>(base + end));
  } else {
    whole.insert(whole.end(), part.begin(), part.end());
  }
}

}  // namespace

EncodedPart join(std::vector<EncodedPart> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  // A part has types only if some are not 0.
  bool types = false;
  for (const EncodedPart& part : parts) types = types || !part.types.empty();
  for (EncodedPart& part : parts) {
    if (types) part.types.resize(part.ids.size(), 0);
  }
  EncodedPart whole;
  // Column by column, freeing each part's column once it is copied: at most one column is in memory twice.
  EncodedPart::visit([&](const char*, auto column, ColumnUnit unit, bool accumulates) {
    std::size_t size = 0;
    for (const EncodedPart& part : parts) size += (part.*column).size();
    if (unit != ColumnUnit::kCounts) (whole.*column).reserve(size);
    for (EncodedPart& part : parts) {
      append(whole.*column, part.*column, unit, accumulates);
      std::remove_reference_t<decltype(part.*column)>().swap(part.*column);
    }
  });
  return whole;
}

}  // namespace chorus::inline tasks

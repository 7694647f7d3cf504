#include "application/tasks/text_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "application/text/tokenizer_spec.h"
#include "core/base/error.h"

namespace chorus::inline tasks {

TextRows::TextRows(const Tokenizer& tokenizer, std::int64_t max_length)
    : tokenizer_(tokenizer), max_length_(static_cast<std::size_t>(max_length)) {
  const std::size_t special = tokenizer.special_count(true);
  if (max_length_ > 0 && max_length_ <= special) {
    throw ConfigError(fmt::format("max_length {} leaves no room for text beside the tokenizer's {} special tokens",
                                  max_length_, special));
  }
}

bool TextRows::append(std::string_view text, std::vector<std::int32_t>& ids) {
  scratch_.clear();
  const std::size_t room = max_length_ == 0 ? std::numeric_limits<std::size_t>::max()
                                            : max_length_ - std::min(max_length_, tokenizer_.special_count(false));
  // One token more than fits shows whether something is truncated.
  tokenizer_.encode_ids(text, scratch_, false, max_length_ == 0 ? 0 : room + 1);
  const std::size_t kept = std::min(room, scratch_.size());
  for (const auto& item : tokenizer_.spec().post_processor.single) {
    if (item.kind == text::TemplateItem::Kind::kSpecial) {
      ids.push_back(item.id);
    } else {
      ids.insert(ids.end(), scratch_.begin(), scratch_.begin() + static_cast<std::ptrdiff_t>(kept));
    }
  }
  return kept < scratch_.size();
}

bool TextRows::append_pair(std::string_view first, std::string_view second, EncodedPart& out) {
  const std::size_t before = out.ids.size();
  const Encoding row = tokenizer_.encode_pair(first, second, {.max_length = max_length_});
  out.ids.insert(out.ids.end(), row.ids.begin(), row.ids.end());
  const bool types = std::any_of(row.type_ids.begin(), row.type_ids.end(), [](std::int32_t type) { return type != 0; });
  if (types || !out.types.empty()) {
    out.types.resize(before, 0);
    for (const std::int32_t type : row.type_ids) out.types.push_back(static_cast<std::uint8_t>(type));
  }
  return row.size() == max_length_;
}

}  // namespace chorus::inline tasks

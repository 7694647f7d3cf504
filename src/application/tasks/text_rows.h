#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "application/tasks/encoded_columns.h"
#include "application/text/tokenizer.h"

namespace chorus::inline tasks {

/// Appends texts to encoded columns by the tokenizer's template. Use one per thread; it keeps its memory between calls.
class TextRows {
 public:
  /// At most `max_length` tokens per row (0: no limit).
  TextRows(const Tokenizer& tokenizer, std::int64_t max_length);

  /// Appends the tokens of one text, including special ones, to `ids`. Returns whether it was truncated.
  bool append(std::string_view text, std::vector<std::int32_t>& ids);
  /// Appends the tokens of a pair to out.ids and, if some types are not 0, the types to out.types; does not end the
  /// row.
  bool append_pair(std::string_view first, std::string_view second, EncodedPart& out);

 private:
  const Tokenizer& tokenizer_;
  std::size_t max_length_;
  std::vector<std::int32_t> scratch_;
};

}  // namespace chorus::inline tasks

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "application/tasks/encoded_columns.h"
#include "application/text/tokenizer.h"

namespace chorus::inline tasks {

/// Appends texts to encoded columns as the tokenizer's template has them. One a thread; keeps its memory between calls.
class TextRows {
 public:
  /// At most `max_length` tokens a row (0: no limit).
  TextRows(const Tokenizer& tokenizer, std::int64_t max_length);

  /// Writes the tokens of one text, special ones included, to `ids`. Whether it had to be cut.
  bool append(std::string_view text, std::vector<std::int32_t>& ids);
  /// Writes the tokens of a pair to out.ids and, where some are not 0, their types to out.types; does not end the row.
  bool append_pair(std::string_view first, std::string_view second, EncodedPart& out);

 private:
  const Tokenizer& tokenizer_;
  std::size_t max_length_;
  std::vector<std::int32_t> scratch_;
};

}  // namespace chorus::inline tasks

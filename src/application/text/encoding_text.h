#pragma once

#include <string>

#include "application/text/tokenizer.h"

namespace chorus::inline text {

/// One line of JSON: {"ids": [...], "tokens": [...], "offsets": [[b, e], ...], "type_ids": [...], "overflow": [...]};
/// "overflow" only when there is some, "words" only after encode_words.
std::string encoding_json(const Tokenizer& tokenizer, const Encoding& encoding);

/// The tokens separated by spaces; each overflow window on its own line.
std::string encoding_line(const Tokenizer& tokenizer, const Encoding& encoding);

}  // namespace chorus::inline text

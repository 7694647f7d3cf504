#pragma once

#include <optional>
#include <string>
#include <string_view>

/// RFC 4648 with padding, the encoding of SentencePiece's compiled rules in tokenizer.json. (None of our libraries has
/// it.)
namespace chorus::inline text {

std::string to_base64(std::string_view bytes);

/// nullopt when the text is not base64. Padding is optional; line breaks are not allowed.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace chorus::inline text

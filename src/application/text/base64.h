#pragma once

#include <optional>
#include <string>
#include <string_view>

/// RFC 4648, with padding: how tokenizer.json carries SentencePiece's compiled rules. (No kept library has it.)
namespace chorus::text {

std::string to_base64(std::string_view bytes);

/// Nothing when the text is not base64. Line breaks are not allowed; missing padding is.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace chorus::text

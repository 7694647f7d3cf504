#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// Joins tokens to text: "play", "##ing" -> "playing"; "Ġthe" -> " the"; "▁the" -> " the". Invalid UTF-8 becomes
/// U+FFFD.
std::string join_tokens(const DecoderSpec& decoder, const std::vector<std::string_view>& tokens);

}  // namespace chorus::inline text

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "application/text/tokenizer_spec.h"

namespace chorus::text {

/// Puts tokens together to text again: "play", "##ing" -> "playing"; "Ġthe" -> " the"; "▁the" -> " the". Bytes that do
/// not make UTF-8 become U+FFFD.
std::string join_tokens(const DecoderSpec& decoder, const std::vector<std::string_view>& tokens);

}  // namespace chorus::text

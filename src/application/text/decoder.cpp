#include "application/text/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "application/text/subword_model.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out.append(text.substr(at, found - at));
    if (found == std::string_view::npos) return out;
    out.append(to);
    at = found + from.size();
  }
}

/// BERT's clean-up of English punctuation, token by token.
void clean_up(std::string& token) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{{{" .", "."},
                                                                                         {" ?", "?"},
                                                                                         {" !", "!"},
                                                                                         {" ,", ","},
                                                                                         {" ' ", "'"},
                                                                                         {" n't", "n't"},
                                                                                         {" 'm", "'m"},
                                                                                         {" do not", " don't"},
                                                                                         {" 's", "'s"},
                                                                                         {" 've", "'ve"},
                                                                                         {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) {
    if (token.find(from) != std::string::npos) token = replace_all(token, from, to);
  }
}

std::string join_wordpiece(const DecoderSpec& decoder, const std::vector<std::string_view>& tokens) {
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string_view rest = tokens[i];
    std::string token;
    if (i > 0) {
      if (rest.starts_with(decoder.prefix)) {
        rest.remove_prefix(decoder.prefix.size());
      } else {
        token.push_back(' ');
      }
    }
    token.append(rest);
    if (decoder.cleanup) clean_up(token);
    out += token;
  }
  return out;
}

std::string join_bytes(const std::vector<std::string_view>& tokens) {
  std::string out;
  for (const auto token : tokens) {
    const std::u32string codes = utf8::to_utf32(token);
    const bool spelled = std::all_of(codes.begin(), codes.end(), [](char32_t c) { return alphabet_byte(c) >= 0; });
    out += spelled ? raw_bytes(token) : std::string(token);
  }
  return utf8::replace_invalid(out);
}

/// The byte of a byte-fallback token, -1 for another token.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string join_metaspace(const DecoderSpec& decoder, const std::vector<std::string_view>& tokens) {
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const int byte = fallback_byte(tokens[i]);
    if (byte >= 0) {
      out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
      continue;
    }
    out += replace_all(tokens[i], "\xE2\x96\x81", i == 0 && decoder.strip_first ? "" : " ");
  }
  return utf8::replace_invalid(out);
}

}  // namespace

std::string join_tokens(const DecoderSpec& decoder, const std::vector<std::string_view>& tokens) {
  switch (decoder.kind) {
    case DecoderSpec::Kind::kWordPiece:
      return join_wordpiece(decoder, tokens);
    case DecoderSpec::Kind::kByteLevel:
      return join_bytes(tokens);
    case DecoderSpec::Kind::kMetaspace:
      return join_metaspace(decoder, tokens);
    case DecoderSpec::Kind::kJoin:
      break;
  }
  std::string out;
  for (const auto token : tokens) {
    if (!out.empty()) out += ' ';
    out += token;
  }
  return out;
}

}  // namespace chorus::inline text

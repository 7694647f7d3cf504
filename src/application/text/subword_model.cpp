#include "application/text/subword_model.h"

#include <array>

#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

bool prints(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

}  // namespace

const std::vector<char32_t>& byte_alphabet() {
  static const std::vector<char32_t> alphabet = [] {
    std::vector<char32_t> table(256);
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) table[byte] = prints(byte) ? static_cast<char32_t>(byte) : next++;
    return table;
  }();
  return alphabet;
}

int alphabet_byte(char32_t character) {
  static const std::array<int, 512> back = [] {
    std::array<int, 512> table;
    table.fill(-1);
    for (int byte = 0; byte < 256; ++byte) table[byte_alphabet()[static_cast<std::size_t>(byte)]] = byte;
    return table;
  }();
  return character < back.size() ? back[character] : -1;
}

std::string raw_bytes(std::string_view spelled) {
  std::string out;
  for (std::size_t at = 0; at < spelled.size();) {
    const char32_t code = utf8::next(spelled, at);
    const int byte = alphabet_byte(code);
    if (byte >= 0) {
      out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
    } else {
      utf8::append(out, code);
    }
  }
  return out;
}

std::string spell_bytes(std::string_view raw) {
  std::string out;
  for (const char c : raw) utf8::append(out, byte_alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

std::string byte_token(unsigned char byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
}

std::unique_ptr<SubwordModel> make_model(const ModelSpec& spec, bool byte_level) {
  switch (spec.kind) {
    case ModelSpec::Kind::kBpe:
      return make_bpe(spec, byte_level);
    case ModelSpec::Kind::kUnigram:
      return make_unigram(spec);
    case ModelSpec::Kind::kWordPiece:
      break;
  }
  return make_wordpiece(spec);
}

}  // namespace chorus::inline text

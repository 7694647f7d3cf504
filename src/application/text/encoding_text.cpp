#include "application/text/encoding_text.h"

#include <nlohmann/json.hpp>

namespace chorus::inline text {

namespace {

nlohmann::ordered_json to_json(const Tokenizer& tokenizer, const Encoding& encoding) {
  nlohmann::ordered_json json;
  json["ids"] = encoding.ids;
  json["tokens"] = tokenizer.tokens(encoding);
  auto& offsets = json["offsets"] = nlohmann::ordered_json::array();
  for (const auto& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  json["type_ids"] = encoding.type_ids;
  if (!encoding.words.empty()) json["words"] = encoding.words;
  for (const auto& window : encoding.overflow) json["overflow"].push_back(to_json(tokenizer, window));
  return json;
}

}  // namespace

std::string encoding_json(const Tokenizer& tokenizer, const Encoding& encoding) {
  return to_json(tokenizer, encoding).dump();
}

std::string encoding_line(const Tokenizer& tokenizer, const Encoding& encoding) {
  std::string out;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    if (i > 0) out += ' ';
    out += tokenizer.token(encoding.ids[i]);
  }
  for (const auto& window : encoding.overflow) out += "\n  " + encoding_line(tokenizer, window);
  return out;
}

}  // namespace chorus::inline text

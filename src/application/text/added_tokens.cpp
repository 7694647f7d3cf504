#include "application/text/added_tokens.h"

#include <algorithm>

#include "application/text/unicode.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

/// Start of the character that ends at `end`.
std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t at = character_before(text, begin);
    if (unicode::is_word(utf8::next(text, at))) return true;
  }
  return end < text.size() && unicode::is_word(utf8::next(text, end));
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& t) { return t.content.empty(); });
  std::vector<std::string> contents;
  for (const auto& token : tokens_) {
    contents.push_back(token.content);
    starts_[static_cast<unsigned char>(token.content[0])] = true;
  }
  trie_ = Trie(contents);
}

void AddedTokenFinder::find(std::string_view text, std::vector<Match>& matches) const {
  matches.clear();
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::int32_t found = Trie::kNone;
    std::size_t end = at;
    std::uint32_t node = 0;
    for (std::size_t i = at; i < text.size() && (node = trie_.step(node, static_cast<unsigned char>(text[i]))) != 0;) {
      ++i;
      if (trie_.id(node) == Trie::kNone) continue;
      found = trie_.id(node);
      end = i;
    }
    if (found == Trie::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found)];
    std::size_t begin = at;
    at = end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) {
      while (begin > done) {
        const std::size_t before = character_before(text, begin);
        std::size_t behind = before;
        if (before < done || !unicode::is_space(utf8::next(text, behind))) break;
        begin = before;
      }
    }
    if (token.rstrip) {
      while (end < text.size()) {
        std::size_t behind = end;
        if (!unicode::is_space(utf8::next(text, behind))) break;
        end = behind;
      }
      at = end;
    }
    matches.push_back({begin, end, token.id});
    done = end;
  }
}

}  // namespace chorus::inline text

#include <algorithm>
#include <string>

#include "application/text/subword_model.h"
#include "application/text/vocabulary.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

class WordPiece final : public SubwordModel {
 public:
  explicit WordPiece(const ModelSpec& spec)
      : unknown_(spec.unknown.value_or(0)), max_characters_(spec.max_word_characters) {
    // Two tables, to look up a continuation without prepending "##".
    std::vector<std::string> first(spec.tokens.size());
    std::vector<std::string> inner(spec.tokens.size());
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
      const std::string& token = spec.tokens[id];
      first[id] = token;
      if (token.size() > spec.continuing_prefix.size() && token.starts_with(spec.continuing_prefix)) {
        inner[id] = token.substr(spec.continuing_prefix.size());
      }
    }
    first_ = Vocabulary(std::move(first));
    inner_ = Vocabulary(std::move(inner));
  }

  void cut(std::string_view word, std::vector<Piece>& pieces) const override {
    const auto whole = static_cast<std::uint32_t>(word.size());
    if (word.size() > max_characters_ && utf8::count(word) > max_characters_) {
      pieces.push_back({unknown_, 0, whole});
      return;
    }
    const std::size_t before = pieces.size();
    for (std::size_t start = 0; start < word.size();) {
      const Vocabulary& vocabulary = start == 0 ? first_ : inner_;
      std::size_t end = std::min(word.size(), start + vocabulary.longest());
      std::int32_t id = Vocabulary::kNone;
      for (; end > start; --end) {
        if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
        id = vocabulary.find(word.substr(start, end - start));
        if (id != Vocabulary::kNone) break;
      }
      if (id == Vocabulary::kNone) {
        pieces.resize(before);
        pieces.push_back({unknown_, 0, whole});
        return;
      }
      pieces.push_back({id, static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(end)});
      start = end;
    }
  }

 private:
  std::int32_t unknown_;
  std::size_t max_characters_;
  Vocabulary first_;
  Vocabulary inner_;
};

}  // namespace

std::unique_ptr<SubwordModel> make_wordpiece(const ModelSpec& spec) { return std::make_unique<WordPiece>(spec); }

}  // namespace chorus::inline text

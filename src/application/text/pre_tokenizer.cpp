#include "application/text/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "application/text/unicode.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

using CharacterKind = unicode::Kind;

constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581

enum class BertClass : std::uint8_t { kInside, kSpace, kPunctuation };

BertClass bert_class(char32_t code) {
  if (unicode::is_space(code)) return BertClass::kSpace;
  return unicode::is_bert_punctuation(code) ? BertClass::kPunctuation : BertClass::kInside;
}

std::array<BertClass, 128> bert_ascii() {
  std::array<BertClass, 128> table{};
  for (char32_t c = 0; c < 128; ++c) table[c] = bert_class(c);
  return table;
}

const std::array<BertClass, 128> kBertAscii = bert_ascii();

void split_bert(const std::string& bytes, WordSpan span, std::vector<WordSpan>& out) {
  std::uint32_t word = span.begin;
  std::size_t at = span.begin;
  const std::string_view text(bytes.data(), span.end);
  while (at < span.end) {
    const auto from = static_cast<std::uint32_t>(at);
    const auto byte = static_cast<unsigned char>(bytes[at]);
    BertClass c;
    if (byte < 128) {
      ++at;
      c = kBertAscii[byte];
    } else {
      c = bert_class(utf8::next_multibyte(text, at));
    }
    if (c == BertClass::kInside) continue;
    if (word < from) out.push_back({word, from});
    word = static_cast<std::uint32_t>(at);
    if (c == BertClass::kPunctuation) out.push_back({from, word});
  }
  if (word < span.end) out.push_back({word, span.end});
}

void split_white_space(const std::string& bytes, WordSpan span, std::vector<WordSpan>& out) {
  std::uint32_t word = span.begin;
  const std::string_view text(bytes.data(), span.end);
  for (std::size_t at = span.begin; at < span.end;) {
    const auto from = static_cast<std::uint32_t>(at);
    if (!unicode::is_space(utf8::next(text, at))) continue;
    if (word < from) out.push_back({word, from});
    word = static_cast<std::uint32_t>(at);
  }
  if (word < span.end) out.push_back({word, span.end});
}

/// Length of an English contraction at the front, 0 if none.
std::size_t contraction(std::string_view rest) {
  if (rest.size() < 2 || rest[0] != '\'') return 0;
  const char a = rest[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (rest.size() < 3) return 0;
  const char b = rest[2];
  return ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) ? 3 : 0;
}

/// End of the run of characters of one kind that starts at `at`.
std::size_t run_of(std::string_view text, std::size_t at, CharacterKind kind) {
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 128) {
      if (unicode::kAsciiKinds[byte] != kind) return at;
      ++at;
      continue;
    }
    std::size_t next = at;
    if (unicode::kind_of_wide(utf8::next_multibyte(text, next)) != kind) return at;
    at = next;
  }
  return at;
}

/// A run of whitespace gives its last character to the next word, unless there is none.
std::size_t white_space_end(std::string_view text, std::size_t at) {
  const std::size_t end = run_of(text, at, CharacterKind::kSpace);
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while (last > at && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
  return last > at ? last : end;
}

void split_gpt2(const std::string& bytes, WordSpan span, std::vector<WordSpan>& out) {
  const std::string_view text(bytes.data(), span.end);
  for (std::size_t at = span.begin; at < span.end;) {
    std::size_t end = at + contraction(text.substr(at));
    if (end == at) {
      std::size_t inner = at + (text[at] == ' ' && at + 1 < span.end ? 1 : 0);
      std::size_t behind = inner;
      const CharacterKind kind = unicode::kind(utf8::next(text, behind));
      end = kind == CharacterKind::kSpace ? white_space_end(text, at) : run_of(text, behind, kind);
    }
    out.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
    at = end;
  }
}

/// Rewrites each word into `spare`, with `prefix` before it when `wanted(word)`; the words then refer to it.
template <typename Wanted>
void prefix_words(AlignedText& text, AlignedText& spare, std::vector<WordSpan>& words, std::string_view prefix,
                  Wanted wanted) {
  spare.clear(text.aligned);
  spare.ascii = text.ascii && prefix.size() == 1;
  for (auto& word : words) {
    const auto start = static_cast<std::uint32_t>(spare.bytes.size());
    if (wanted(word)) {
      spare.bytes.append(prefix);
      if (text.aligned) {
        spare.begin.insert(spare.begin.end(), prefix.size(), text.begin[word.begin]);
        spare.end.insert(spare.end.end(), prefix.size(), text.end[word.begin]);
      }
    }
    spare.bytes.append(text.bytes, word.begin, word.end - word.begin);
    if (text.aligned) {
      spare.begin.insert(spare.begin.end(), text.begin.begin() + word.begin, text.begin.begin() + word.end);
      spare.end.insert(spare.end.end(), text.end.begin() + word.begin, text.end.begin() + word.end);
    }
    word = {start, static_cast<std::uint32_t>(spare.bytes.size())};
  }
  std::swap(text, spare);
}

/// Each space becomes U+2581.
void spaces_to_meta(AlignedText& text, AlignedText& spare, std::vector<WordSpan>& words) {
  spare.clear(text.aligned);
  for (auto& word : words) {
    const auto start = static_cast<std::uint32_t>(spare.bytes.size());
    for (std::size_t at = word.begin; at < word.end;) {
      std::size_t space = text.bytes.find(' ', at);
      space = std::min<std::size_t>(space, word.end);
      if (space > at) spare.copy(text, at, space);
      if (space < word.end) spare.push(U'\u2581', text, space);
      at = space + 1;
    }
    word = {start, static_cast<std::uint32_t>(spare.bytes.size())};
  }
  std::swap(text, spare);
}

void split_meta(const std::string& bytes, WordSpan span, std::vector<WordSpan>& out) {
  std::size_t word = span.begin;
  const std::string_view text(bytes.data(), span.end);
  for (std::size_t at = word + 1; at < span.end; ++at) {
    if (text[at] != kMeta[0] || text.substr(at, kMeta.size()) != kMeta) continue;
    out.push_back({static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(at)});
    word = at;
  }
  if (word < span.end) out.push_back({static_cast<std::uint32_t>(word), span.end});
}

template <typename Split>
void split_all(const std::string& bytes, std::vector<WordSpan>& words, Split split) {
  if (words.size() == 1) {
    const WordSpan whole = words[0];
    words.clear();
    split(bytes, whole, words);
    return;
  }
  std::vector<WordSpan> out;
  out.reserve(words.size() + 8);
  for (const auto& word : words) split(bytes, word, out);
  words.swap(out);
}

}  // namespace

bool PreTokenizer::byte_level() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const auto& s) { return s.kind == PreTokenizerStep::Kind::kByteLevel; });
}

void PreTokenizer::run(AlignedText& text, AlignedText& spare, std::vector<WordSpan>& words, bool at_start) const {
  words.clear();
  if (text.bytes.empty()) return;
  words.push_back({0, static_cast<std::uint32_t>(text.bytes.size())});
  for (const auto& step : steps_) {
    switch (step.kind) {
      case PreTokenizerStep::Kind::kBert:
        split_all(text.bytes, words, split_bert);
        break;
      case PreTokenizerStep::Kind::kWhitespaceSplit:
        split_all(text.bytes, words, split_white_space);
        break;
      case PreTokenizerStep::Kind::kByteLevel:
        if (step.add_prefix_space) {
          prefix_words(text, spare, words, " ", [&](WordSpan w) { return text.bytes[w.begin] != ' '; });
        }
        if (step.use_regex) split_all(text.bytes, words, split_gpt2);
        break;
      case PreTokenizerStep::Kind::kMetaspace: {
        const bool has_space = std::any_of(words.begin(), words.end(), [&](WordSpan w) {
          return std::string_view(text.bytes).substr(w.begin, w.end - w.begin).find(' ') != std::string_view::npos;
        });
        const bool has_meta = !text.ascii && text.bytes.find(kMeta) != std::string::npos;
        if (has_space) spaces_to_meta(text, spare, words);
        if (step.prepend != PreTokenizerStep::Prepend::kNever) {
          const bool first_only = step.prepend == PreTokenizerStep::Prepend::kFirst;
          prefix_words(text, spare, words, kMeta, [&](WordSpan w) {
            if (first_only && !(at_start && w.begin == 0)) return false;
            return std::string_view(text.bytes).substr(w.begin, w.end - w.begin).substr(0, kMeta.size()) != kMeta;
          });
        }
        if (step.split && (has_space || has_meta)) split_all(text.bytes, words, split_meta);
        break;
      }
    }
  }
}

}  // namespace chorus::inline text

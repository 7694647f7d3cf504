#include "application/text/tokenizer_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "application/text/trie.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"

namespace chorus::inline text {

namespace {

bool has_token(const TokenizerSpec& spec, std::int32_t id) {
  const auto& tokens = spec.model.tokens;
  if (id >= 0 && static_cast<std::size_t>(id) < tokens.size() && !tokens[static_cast<std::size_t>(id)].empty()) {
    return true;
  }
  return std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                     [&](const AddedToken& token) { return token.id == id && !token.content.empty(); });
}

void check_template(const TokenizerSpec& spec, bool pair) {
  int first = 0;
  int second = 0;
  for (const auto& item : pair ? spec.post_processor.pair : spec.post_processor.single) {
    if (item.kind == TemplateItem::Kind::kFirst) ++first;
    if (item.kind == TemplateItem::Kind::kSecond) ++second;
    if (item.kind == TemplateItem::Kind::kSpecial && !has_token(spec, item.id)) {
      throw DataError(fmt::format("the post-processor adds token {}, which is not in the vocabulary", item.id));
    }
  }
  if (first != 1 || second != (pair ? 1 : 0)) {
    throw DataError(fmt::format("the post-processor's template for {} must have each text exactly once",
                                pair ? "a pair" : "one text"));
  }
}

void check_model(const ModelSpec& model) {
  if (model.tokens.empty()) throw DataError("the vocabulary is empty");
  std::size_t bytes = 0;
  for (const auto& token : model.tokens) bytes += token.size();
  if (model.tokens.size() > kMaxTokens || bytes > Trie::kMaxBytes) {
    throw DataError(fmt::format("a vocabulary of {} tokens and {} bytes is larger than Chorus supports",
                                model.tokens.size(), bytes));
  }
  const auto known = [&](std::int32_t id) { return id >= 0 && static_cast<std::size_t>(id) < model.tokens.size(); };
  if (model.unknown && !known(*model.unknown)) {
    throw DataError(
        fmt::format("the unknown token has id {}, but there are {} tokens", *model.unknown, model.tokens.size()));
  }
  if (model.kind != ModelSpec::Kind::kBpe && !model.unknown) {
    throw DataError(
        "the vocabulary has no token for unknown words ([UNK] or <unk>); without it such a word cannot be "
        "encoded");
  }
  for (const auto& merge : model.merges) {
    if (!known(merge.left) || !known(merge.right) || !known(merge.result)) {
      throw DataError("a merge refers to a token that is not in the vocabulary");
    }
  }
  if (model.kind != ModelSpec::Kind::kUnigram) return;
  if (model.scores.size() != model.tokens.size()) throw DataError("not every token has a score");
  if (!std::all_of(model.scores.begin(), model.scores.end(), [](double s) { return std::isfinite(s); })) {
    throw DataError("a token's score is not a finite number");
  }
}

}  // namespace

void check_spec(const TokenizerSpec& spec) {
  check_model(spec.model);
  std::size_t bytes = 0;
  for (const auto& added : spec.added_tokens) {
    if (added.id < 0 || static_cast<std::size_t>(added.id) >= kMaxTokens) {
      throw DataError(fmt::format("the added token '{}' has the invalid id {}", added.content, added.id));
    }
    bytes += added.content.size();
  }
  if (bytes > Trie::kMaxBytes) throw DataError("the added tokens are larger than Chorus supports");
  check_template(spec, false);
  check_template(spec, true);
}

std::uint64_t fingerprint_of(const TokenizerSpec& spec) {
  std::uint64_t hash = 0;
  const auto add_text = [&](std::string_view text) {
    hash = (hash ^ hash_bytes(text)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  };
  const auto add = [&](auto... numbers) { (add_text(fmt::format("{}", numbers)), ...); };
  const auto& m = spec.model;
  add(static_cast<int>(m.kind), m.unknown.value_or(-1), m.max_word_characters, m.fuse_unknown, m.byte_fallback,
      m.ignore_merges);
  add_text(m.continuing_prefix);
  for (const auto& token : m.tokens) add_text(token);
  const auto raw = [](const auto& vector) {
    return std::string_view(reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(vector[0]));
  };
  add_text(raw(m.merges));
  add_text(raw(m.scores));
  for (const auto& s : spec.normalizer) {
    add(static_cast<int>(s.kind), s.clean_text, s.handle_chinese_chars,
        s.strip_accents ? static_cast<int>(*s.strip_accents) : 2, s.lowercase, s.strip_left, s.strip_right);
    add_text(s.pattern);
    add_text(s.content);
    add_text(s.charsmap);
  }
  for (const auto& s : spec.pre_tokenizer) {
    add(static_cast<int>(s.kind), s.add_prefix_space, s.use_regex, static_cast<int>(s.prepend), s.split);
  }
  for (const auto* items : {&spec.post_processor.single, &spec.post_processor.pair}) {
    for (const auto& i : *items) add(static_cast<int>(i.kind), i.id, i.type_id);
  }
  add(spec.post_processor.trim_offsets, spec.post_processor.trim_keeps_prefix);
  for (const auto& t : spec.added_tokens) {
    add_text(t.content);
    add(t.id, t.special, t.normalized, t.single_word, t.lstrip, t.rstrip);
  }
  return hash;
}

}  // namespace chorus::inline text

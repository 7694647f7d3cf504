#include <fmt/format.h>

#include <initializer_list>

#include "application/text/hugging_face.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"

namespace chorus::inline text {

namespace {

using ItemKind = TemplateItem::Kind;

void default_to(std::string& name, const char* otherwise) {
  if (name.empty()) name = otherwise;
}

std::int32_t require(const Vocabulary& vocabulary, const std::string& token) {
  const std::int32_t id = vocabulary.find(token);
  if (id == Vocabulary::kNone) {
    throw DataError(fmt::format("the vocabulary has no {}, which the tokenizer needs", token));
  }
  return id;
}

/// Special tokens of the vocabulary are matched in text.
void add_specials(TokenizerSpec& spec, const Vocabulary& vocabulary, std::initializer_list<std::string> names) {
  for (const auto& name : names) {
    const std::int32_t id = name.empty() ? Vocabulary::kNone : vocabulary.find(name);
    bool listed = false;
    for (const auto& added : spec.added_tokens) listed = listed || added.content == name;
    if (id == Vocabulary::kNone || listed) continue;
    AddedToken token;
    token.content = name;
    token.id = id;
    spec.added_tokens.push_back(token);
  }
}

TokenizerSpec byte_level_spec(ModelSpec model, bool add_prefix_space) {
  TokenizerSpec spec;
  spec.model = std::move(model);
  spec.model.kind = ModelSpec::Kind::kBpe;
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kByteLevel;
  step.add_prefix_space = add_prefix_space;
  spec.pre_tokenizer.push_back(step);
  spec.decoder.kind = DecoderSpec::Kind::kByteLevel;
  return spec;
}

}  // namespace

TokenizerSpec bert_spec(ModelSpec model, const BertOptions& options, SpecialNames names) {
  default_to(names.pad, "[PAD]");
  default_to(names.unk, "[UNK]");
  default_to(names.cls, "[CLS]");
  default_to(names.sep, "[SEP]");
  default_to(names.mask, "[MASK]");
  TokenizerSpec spec;
  spec.model = std::move(model);
  spec.model.kind = ModelSpec::Kind::kWordPiece;
  const Vocabulary vocabulary(spec.model.tokens);
  spec.model.unknown = require(vocabulary, names.unk);
  NormalizerStep normalizer;
  normalizer.lowercase = options.lowercase;
  normalizer.handle_chinese_chars = options.tokenize_chinese_chars;
  normalizer.strip_accents = options.strip_accents;
  spec.normalizer.push_back(normalizer);
  spec.pre_tokenizer.emplace_back();
  const std::int32_t cls = require(vocabulary, names.cls);
  const std::int32_t sep = require(vocabulary, names.sep);
  spec.post_processor.single = {{ItemKind::kSpecial, cls, 0}, {ItemKind::kFirst, 0, 0}, {ItemKind::kSpecial, sep, 0}};
  spec.post_processor.pair = {{ItemKind::kSpecial, cls, 0},
                              {ItemKind::kFirst, 0, 0},
                              {ItemKind::kSpecial, sep, 0},
                              {ItemKind::kSecond, 0, 1},
                              {ItemKind::kSpecial, sep, 1}};
  spec.decoder.kind = DecoderSpec::Kind::kWordPiece;
  add_specials(spec, vocabulary, {names.pad, names.unk, names.cls, names.sep, names.mask});
  spec.special = std::move(names);
  spec.tokenizer_class = "BertTokenizer";
  return spec;
}

TokenizerSpec gpt2_spec(ModelSpec model, bool add_prefix_space, SpecialNames names) {
  default_to(names.bos, "<|endoftext|>");
  default_to(names.eos, "<|endoftext|>");
  default_to(names.unk, "<|endoftext|>");
  TokenizerSpec spec = byte_level_spec(std::move(model), add_prefix_space);
  add_specials(spec, Vocabulary(spec.model.tokens), {names.bos, names.eos, names.unk, names.pad});
  spec.special = std::move(names);
  spec.tokenizer_class = "GPT2Tokenizer";
  return spec;
}

TokenizerSpec roberta_spec(ModelSpec model, bool add_prefix_space, SpecialNames names) {
  default_to(names.bos, "<s>");
  default_to(names.eos, "</s>");
  default_to(names.cls, "<s>");
  default_to(names.sep, "</s>");
  default_to(names.unk, "<unk>");
  default_to(names.pad, "<pad>");
  default_to(names.mask, "<mask>");
  TokenizerSpec spec = byte_level_spec(std::move(model), add_prefix_space);
  const Vocabulary vocabulary(spec.model.tokens);
  const std::int32_t cls = require(vocabulary, names.cls);
  const std::int32_t sep = require(vocabulary, names.sep);
  const TemplateItem begin{ItemKind::kSpecial, cls, 0};
  const TemplateItem end{ItemKind::kSpecial, sep, 0};
  spec.post_processor.single = {begin, {ItemKind::kFirst, 0, 0}, end};
  spec.post_processor.pair = {begin, {ItemKind::kFirst, 0, 0}, end, end, {ItemKind::kSecond, 0, 0}, end};
  spec.post_processor.trim_offsets = true;
  spec.post_processor.trim_keeps_prefix = add_prefix_space;
  add_specials(spec, vocabulary, {names.bos, names.eos, names.cls, names.sep, names.unk, names.pad, names.mask});
  for (auto& token : spec.added_tokens) token.lstrip = token.content == names.mask;
  spec.special = std::move(names);
  spec.tokenizer_class = "RobertaTokenizer";
  return spec;
}

}  // namespace chorus::inline text

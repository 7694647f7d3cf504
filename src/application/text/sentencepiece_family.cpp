#include "application/text/sentencepiece_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "application/text/sentencepiece_model.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"

namespace chorus::inline text {

namespace {

using ItemKind = TemplateItem::Kind;

void name_if_unset(std::string& name, const char* otherwise) {
  if (name.empty()) name = otherwise;
}

ModelSpec unigram_of(const SentencePieceModel& source, const std::string& file) {
  if (source.type != SentencePieceModel::Type::kUnigram) {
    constexpr std::array<const char*, 5> kNames{"", "Unigram", "BPE", "word", "character"};
    throw DataError(
        fmt::format("{}: a SentencePiece model of type {}; only Unigram models (T5, ALBERT) are supported "
                    "from this file, so save the tokenizer as tokenizer.json",
                    file, kNames[static_cast<std::size_t>(source.type)]));
  }
  ModelSpec model;
  model.kind = ModelSpec::Kind::kUnigram;
  for (const auto& piece : source.pieces) {
    model.tokens.push_back(piece.text);
    model.scores.push_back(static_cast<double>(piece.score));
  }
  model.unknown = source.unknown;
  model.byte_fallback = source.byte_fallback;
  return model;
}

void replace_step(TokenizerSpec& spec, std::string pattern, std::string content) {
  NormalizerStep step;
  step.kind = NormalizerStep::Kind::kReplace;
  step.pattern = std::move(pattern);
  step.content = std::move(content);
  spec.normalizer.push_back(step);
}

void plain_step(TokenizerSpec& spec, NormalizerStep::Kind kind) {
  NormalizerStep step;
  step.kind = kind;
  spec.normalizer.push_back(step);
}

}  // namespace

TokenizerSpec sentencepiece_spec(std::string bytes, const std::string& file, SentencePieceOptions options,
                                 SpecialNames names) {
  const SentencePieceModel source = read_sentencepiece(bytes, file);
  TokenizerSpec spec;
  spec.model = unigram_of(source, file);
  const auto require = [&](const std::string& token) {
    const std::int32_t id = Vocabulary(spec.model.tokens).find(token);
    if (id == Vocabulary::kNone) throw DataError(fmt::format("{}: the vocabulary has no {}", file, token));
    return id;
  };
  if (!options.family_known) {
    options.albert = Vocabulary(spec.model.tokens).find("[CLS]") != Vocabulary::kNone;
  }
  name_if_unset(names.pad, "<pad>");
  name_if_unset(names.unk, "<unk>");
  if (options.albert) {
    name_if_unset(names.cls, "[CLS]");
    name_if_unset(names.sep, "[SEP]");
    name_if_unset(names.mask, "[MASK]");
    name_if_unset(names.bos, "[CLS]");
    name_if_unset(names.eos, "[SEP]");
    replace_step(spec, "``", "\"");
    replace_step(spec, "''", "\"");
    if (!options.keep_accents) {
      plain_step(spec, NormalizerStep::Kind::kNfkd);
      plain_step(spec, NormalizerStep::Kind::kStripAccents);
    }
    if (options.lowercase) plain_step(spec, NormalizerStep::Kind::kLowercase);
    const TemplateItem cls{ItemKind::kSpecial, require(names.cls), 0};
    const TemplateItem sep{ItemKind::kSpecial, require(names.sep), 0};
    spec.post_processor.single = {cls, {ItemKind::kFirst, 0, 0}, sep};
    spec.post_processor.pair = {
        cls, {ItemKind::kFirst, 0, 0}, sep, {ItemKind::kSecond, 0, 1}, {ItemKind::kSpecial, sep.id, 1}};
    spec.tokenizer_class = "AlbertTokenizer";
  } else {
    name_if_unset(names.eos, "</s>");
    const TemplateItem eos{ItemKind::kSpecial, require(names.eos), 0};
    spec.post_processor.single = {{ItemKind::kFirst, 0, 0}, eos};
    spec.post_processor.pair = {{ItemKind::kFirst, 0, 0}, eos, {ItemKind::kSecond, 0, 0}, eos};
    for (int i = options.extra_ids - 1; i >= 0; --i) {
      spec.model.tokens.push_back(fmt::format("<extra_id_{}>", i));
      spec.model.scores.push_back(0.0);
    }
    spec.tokenizer_class = "T5Tokenizer";
  }
  if (!source.charsmap.empty()) {
    plain_step(spec, NormalizerStep::Kind::kPrecompiled);
    spec.normalizer.back().charsmap = source.charsmap;
  }
  PreTokenizerStep words;
  words.kind = PreTokenizerStep::Kind::kWhitespaceSplit;
  PreTokenizerStep meta;
  meta.kind = PreTokenizerStep::Kind::kMetaspace;
  meta.prepend = source.add_dummy_prefix ? PreTokenizerStep::Prepend::kAlways : PreTokenizerStep::Prepend::kNever;
  spec.pre_tokenizer = {words, meta};
  spec.decoder.kind = DecoderSpec::Kind::kMetaspace;
  const Vocabulary vocabulary(spec.model.tokens);
  const auto add = [&](const std::string& name, bool special) {
    const std::int32_t id = name.empty() ? Vocabulary::kNone : vocabulary.find(name);
    const bool listed = std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                                    [&](const AddedToken& t) { return t.content == name; });
    if (id == Vocabulary::kNone || listed) return;
    AddedToken token;
    token.content = name;
    token.id = id;
    token.special = special;
    spec.added_tokens.push_back(token);
  };
  for (const auto* name : {&names.pad, &names.unk, &names.eos, &names.cls, &names.sep, &names.mask, &names.bos}) {
    add(*name, true);
  }
  if (!options.albert) {
    for (int i = 0; i < options.extra_ids; ++i) add(fmt::format("<extra_id_{}>", i), true);
  }
  // A user-defined symbol is never split, and the text after it begins a word.
  for (const auto& piece : source.pieces) {
    const bool control = piece.type == SentencePieceModel::PieceType::kControl;
    if (control || piece.type == SentencePieceModel::PieceType::kUserDefined) add(piece.text, control);
  }
  spec.special = std::move(names);
  spec.sentencepiece = std::move(bytes);
  return spec;
}

}  // namespace chorus::inline text

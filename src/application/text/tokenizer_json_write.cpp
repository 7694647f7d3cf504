#include <nlohmann/json.hpp>

#include "application/text/base64.h"
#include "application/text/tokenizer_json.h"

namespace chorus::inline text {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson model_json(const ModelSpec& model) {
  const auto unknown = [&]() -> OrderedJson {
    return model.unknown ? OrderedJson(model.tokens[static_cast<std::size_t>(*model.unknown)]) : OrderedJson();
  };
  const auto& tokens = model.tokens;
  // Built as an array of pairs first: inserting 50,000 keys one by one into an ordered object is quadratic.
  OrderedJson::object_t vocab;
  if (model.kind != ModelSpec::Kind::kUnigram) {
    vocab.reserve(tokens.size());
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (!tokens[id].empty()) vocab.Container::emplace_back(tokens[id], id);
    }
  }
  switch (model.kind) {
    case ModelSpec::Kind::kWordPiece:
      return {{"type", "WordPiece"},
              {"unk_token", unknown()},
              {"continuing_subword_prefix", model.continuing_prefix},
              {"max_input_chars_per_word", model.max_word_characters},
              {"vocab", std::move(vocab)}};
    case ModelSpec::Kind::kBpe: {
      OrderedJson merges = OrderedJson::array();
      for (const auto& m : model.merges) {
        merges.push_back({tokens[static_cast<std::size_t>(m.left)], tokens[static_cast<std::size_t>(m.right)]});
      }
      return {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", unknown()},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", model.fuse_unknown},
              {"byte_fallback", model.byte_fallback},
              {"ignore_merges", model.ignore_merges},
              {"vocab", std::move(vocab)},
              {"merges", std::move(merges)}};
    }
    case ModelSpec::Kind::kUnigram:
      break;
  }
  OrderedJson pieces = OrderedJson::array();
  for (std::size_t id = 0; id < tokens.size(); ++id)
    pieces.push_back(OrderedJson::array({tokens[id], model.scores[id]}));
  return {{"type", "Unigram"},
          {"unk_id", model.unknown ? OrderedJson(*model.unknown) : OrderedJson()},
          {"vocab", std::move(pieces)},
          {"byte_fallback", model.byte_fallback}};
}

OrderedJson normalizer_json(const NormalizerStep& s) {
  using Kind = NormalizerStep::Kind;
  switch (s.kind) {
    case Kind::kBert:
      return {{"type", "BertNormalizer"},
              {"clean_text", s.clean_text},
              {"handle_chinese_chars", s.handle_chinese_chars},
              {"strip_accents", s.strip_accents ? OrderedJson(*s.strip_accents) : OrderedJson()},
              {"lowercase", s.lowercase}};
    case Kind::kLowercase:
      return {{"type", "Lowercase"}};
    case Kind::kNfd:
      return {{"type", "NFD"}};
    case Kind::kNfkd:
      return {{"type", "NFKD"}};
    case Kind::kStripAccents:
      return {{"type", "StripAccents"}};
    case Kind::kStrip:
      return {{"type", "Strip"}, {"strip_left", s.strip_left}, {"strip_right", s.strip_right}};
    case Kind::kReplace:
      return {{"type", "Replace"}, {"pattern", {{"String", s.pattern}}}, {"content", s.content}};
    case Kind::kSqueezeSpaces:
      return {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", s.content}};
    case Kind::kPrepend:
      return {{"type", "Prepend"}, {"prepend", s.content}};
    case Kind::kPrecompiled:
      break;
  }
  return {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(s.charsmap)}};
}

OrderedJson pre_tokenizer_json(const PreTokenizerStep& s) {
  using Kind = PreTokenizerStep::Kind;
  switch (s.kind) {
    case Kind::kBert:
      return {{"type", "BertPreTokenizer"}};
    case Kind::kWhitespaceSplit:
      return {{"type", "WhitespaceSplit"}};
    case Kind::kByteLevel:
      return {{"type", "ByteLevel"},
              {"add_prefix_space", s.add_prefix_space},
              {"trim_offsets", s.trim_offsets},
              {"use_regex", s.use_regex}};
    case Kind::kMetaspace:
      break;
  }
  const char* scheme = s.prepend == PreTokenizerStep::Prepend::kAlways  ? "always"
                       : s.prepend == PreTokenizerStep::Prepend::kFirst ? "first"
                                                                        : "never";
  return {{"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", scheme}, {"split", s.split}};
}

/// Nothing, the one step, or a Sequence of them.
OrderedJson in_sequence(std::vector<OrderedJson> steps, const char* key) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps[0]);
  OrderedJson out = {{"type", "Sequence"}};
  out[key] = std::move(steps);
  return out;
}

std::string token_text(const TokenizerSpec& spec, std::int32_t id) {
  for (const auto& added : spec.added_tokens) {
    if (added.id == id) return added.content;
  }
  return spec.model.tokens[static_cast<std::size_t>(id)];
}

OrderedJson template_json(const TokenizerSpec& spec) {
  OrderedJson specials = OrderedJson::object();
  const auto items_json = [&](const std::vector<TemplateItem>& items) {
    OrderedJson out = OrderedJson::array();
    for (const auto& item : items) {
      if (item.kind != TemplateItem::Kind::kSpecial) {
        const char* id = item.kind == TemplateItem::Kind::kFirst ? "A" : "B";
        out.push_back({{"Sequence", {{"id", id}, {"type_id", item.type_id}}}});
        continue;
      }
      const std::string text = token_text(spec, item.id);
      specials[text] = {{"id", text}, {"ids", {item.id}}, {"tokens", {text}}};
      out.push_back({{"SpecialToken", {{"id", text}, {"type_id", item.type_id}}}});
    }
    return out;
  };
  OrderedJson single = items_json(spec.post_processor.single);
  OrderedJson pair = items_json(spec.post_processor.pair);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

OrderedJson post_processor_json(const TokenizerSpec& spec) {
  const auto& post = spec.post_processor;
  std::vector<OrderedJson> steps;
  if (post.trim_offsets) {
    steps.push_back({{"type", "ByteLevel"},
                     {"add_prefix_space", post.trim_keeps_prefix},
                     {"trim_offsets", true},
                     {"use_regex", true}});
  }
  if (post.single.size() > 1 || post.pair.size() > 2) steps.push_back(template_json(spec));
  return in_sequence(std::move(steps), "processors");
}

OrderedJson decoder_json(const DecoderSpec& d) {
  switch (d.kind) {
    case DecoderSpec::Kind::kJoin:
      return nullptr;
    case DecoderSpec::Kind::kWordPiece:
      return {{"type", "WordPiece"}, {"prefix", d.prefix}, {"cleanup", d.cleanup}};
    case DecoderSpec::Kind::kByteLevel:
      return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    case DecoderSpec::Kind::kMetaspace:
      break;
  }
  return {{"type", "Metaspace"},
          {"replacement", "\xE2\x96\x81"},
          {"prepend_scheme", d.strip_first ? "always" : "never"},
          {"split", true}};
}

}  // namespace

std::string write_tokenizer_json(const TokenizerSpec& spec) {
  OrderedJson added = OrderedJson::array();
  for (const auto& t : spec.added_tokens) {
    added.push_back({{"id", t.id},
                     {"content", t.content},
                     {"single_word", t.single_word},
                     {"lstrip", t.lstrip},
                     {"rstrip", t.rstrip},
                     {"normalized", t.normalized},
                     {"special", t.special}});
  }
  std::vector<OrderedJson> normalizers;
  for (const auto& step : spec.normalizer) normalizers.push_back(normalizer_json(step));
  std::vector<OrderedJson> pre_tokenizers;
  for (const auto& step : spec.pre_tokenizer) pre_tokenizers.push_back(pre_tokenizer_json(step));
  const OrderedJson out = {{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", std::move(added)},
                           {"normalizer", in_sequence(std::move(normalizers), "normalizers")},
                           {"pre_tokenizer", in_sequence(std::move(pre_tokenizers), "pretokenizers")},
                           {"post_processor", post_processor_json(spec)},
                           {"decoder", decoder_json(spec.decoder)},
                           {"model", model_json(spec.model)}};
  return out.dump(1) + "\n";
}

}  // namespace chorus::inline text

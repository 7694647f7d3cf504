#include "application/text/tokenizer_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "application/text/base64.h"
#include "application/text/json_text.h"
#include "application/text/vocab_files.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"

namespace chorus::inline text {

namespace {

using Json = nlohmann::json;

/// Reads the parts; keeps the file's name for errors.
class Reader {
 public:
  Reader(const Json& root, const std::string& file) : root_(root), file_(file) {}

  TokenizerSpec read() {
    if (!root_.is_object() || !root_.contains("model")) fail("this is not a tokenizer.json: it has no \"model\"");
    read_model(root_.at("model"));
    if (const Json* j = part(root_, "added_tokens")) read_added(*j);
    if (const Json* j = part(root_, "normalizer")) read_normalizer(*j);
    if (const Json* j = part(root_, "pre_tokenizer")) read_pre_tokenizer(*j);
    if (const Json* j = part(root_, "post_processor")) read_post_processor(*j);
    if (const Json* j = part(root_, "decoder")) read_decoder(*j);
    return std::move(spec_);
  }

 private:
  static constexpr int kMaxDepth = 8;

  [[noreturn]] void fail(const std::string& reason) const { throw DataError(fmt::format("{}: {}", file_, reason)); }
  [[noreturn]] void unsupported(std::string_view what, const std::string& type) const {
    fail(fmt::format("the {} '{}' is not supported; see tokenizer_json.h for those that are", what, type));
  }

  static const Json* part(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
  template <typename T>
  static T value(const Json& json, const char* key, T otherwise) {
    const Json* found = part(json, key);
    return found == nullptr ? otherwise : found->get<T>();
  }

  static std::string type_of(const Json& json) { return value(json, "type", std::string()); }

  std::int32_t id_of(const std::string& token) const {
    const std::int32_t id = Vocabulary(spec_.model.tokens).find(token);
    if (id == Vocabulary::kNone) fail(fmt::format("the token '{}' is not in the vocabulary", token));
    return id;
  }

  void read_model(const Json& json) {
    ModelSpec& model = spec_.model;
    std::string type = type_of(json);
    if (type.empty()) type = json.contains("merges") ? "BPE" : json.at("vocab").is_array() ? "Unigram" : "WordPiece";
    if (type == "Unigram") return read_unigram(json);
    if (type != "WordPiece" && type != "BPE") {
      fail(fmt::format("unknown tokenizer model '{}'; supported are WordPiece, BPE and Unigram", type));
    }
    const Json& vocab = json.at("vocab");
    if (!vocab.is_object()) fail("the model's \"vocab\" is not an object of tokens and ids");
    for (const auto& [token, id] : vocab.items()) place_token(model.tokens, token, id.get<std::int64_t>(), file_);
    const std::string unknown = value(json, "unk_token", std::string());
    if (type == "WordPiece") {
      model.kind = ModelSpec::Kind::kWordPiece;
      model.continuing_prefix = value(json, "continuing_subword_prefix", std::string("##"));
      model.max_word_characters = value(json, "max_input_chars_per_word", std::size_t{100});
      model.unknown = id_of(unknown.empty() ? "[UNK]" : unknown);
      return;
    }
    model.kind = ModelSpec::Kind::kBpe;
    if (!unknown.empty()) model.unknown = id_of(unknown);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!value(json, key, std::string()).empty()) unsupported("BPE option", key);
    }
    if (value(json, "dropout", 0.0) != 0.0) unsupported("BPE option", "dropout");
    model.fuse_unknown = value(json, "fuse_unk", false);
    model.byte_fallback = value(json, "byte_fallback", false);
    model.ignore_merges = value(json, "ignore_merges", false);
    std::vector<TokenPair> pairs;
    for (const Json& merge : json.at("merges")) {
      if (merge.is_array() && merge.size() == 2) {
        pairs.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const auto text = merge.get<std::string>();
      const auto space = text.find(' ');
      if (space == std::string::npos) fail(fmt::format("the merge '{}' is not two tokens", text));
      pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    model.merges = resolve_merges(pairs, model.tokens, file_ + " merge", 1);
  }

  void read_unigram(const Json& json) {
    ModelSpec& model = spec_.model;
    model.kind = ModelSpec::Kind::kUnigram;
    for (const Json& entry : json.at("vocab")) {
      model.tokens.push_back(entry.at(0).get<std::string>());
      model.scores.push_back(entry.at(1).get<double>());
    }
    if (const Json* unknown = part(json, "unk_id")) model.unknown = unknown->get<std::int32_t>();
    model.byte_fallback = value(json, "byte_fallback", false);
  }

  void read_added(const Json& json) {
    for (const Json& entry : json) {
      AddedToken token;
      token.content = entry.at("content").get<std::string>();
      token.id = entry.at("id").get<std::int32_t>();
      token.special = value(entry, "special", false);
      token.normalized = value(entry, "normalized", !token.special);
      token.single_word = value(entry, "single_word", false);
      token.lstrip = value(entry, "lstrip", false);
      token.rstrip = value(entry, "rstrip", false);
      spec_.added_tokens.push_back(std::move(token));
    }
  }

  void read_normalizer(const Json& json, int depth = 0) {
    if (depth > kMaxDepth) fail("sequences are nested too deeply");
    using Kind = NormalizerStep::Kind;
    const std::string type = type_of(json);
    if (type == "Sequence") {
      for (const Json& inner : json.at("normalizers")) read_normalizer(inner, depth + 1);
      return;
    }
    NormalizerStep step;
    if (type == "BertNormalizer") {
      step.kind = Kind::kBert;
      step.clean_text = value(json, "clean_text", true);
      step.handle_chinese_chars = value(json, "handle_chinese_chars", true);
      if (const Json* strip = part(json, "strip_accents")) step.strip_accents = strip->get<bool>();
      step.lowercase = value(json, "lowercase", true);
    } else if (type == "Lowercase") {
      step.kind = Kind::kLowercase;
    } else if (type == "NFD") {
      step.kind = Kind::kNfd;
    } else if (type == "NFKD") {
      step.kind = Kind::kNfkd;
    } else if (type == "StripAccents") {
      step.kind = Kind::kStripAccents;
    } else if (type == "Strip") {
      step.kind = Kind::kStrip;
      step.strip_left = value(json, "strip_left", true);
      step.strip_right = value(json, "strip_right", true);
    } else if (type == "Prepend") {
      step.kind = Kind::kPrepend;
      step.content = json.at("prepend").get<std::string>();
    } else if (type == "Precompiled") {
      step.kind = Kind::kPrecompiled;
      const auto bytes = from_base64(value(json, "precompiled_charsmap", std::string()));
      if (!bytes) fail("the precompiled_charsmap is not base64");
      step.charsmap = *bytes;
    } else if (type == "Replace") {
      const Json& pattern = json.at("pattern");
      step.content = json.at("content").get<std::string>();
      if (pattern.contains("String")) {
        step.kind = Kind::kReplace;
        step.pattern = pattern.at("String").get<std::string>();
      } else if (value(pattern, "Regex", std::string()) == " {2,}") {
        step.kind = Kind::kSqueezeSpaces;
      } else {
        unsupported("Replace pattern", value(pattern, "Regex", std::string("?")));
      }
    } else {
      unsupported("normalizer", type);
    }
    spec_.normalizer.push_back(std::move(step));
  }

  void read_pre_tokenizer(const Json& json, int depth = 0) {
    if (depth > kMaxDepth) fail("sequences are nested too deeply");
    using Kind = PreTokenizerStep::Kind;
    const std::string type = type_of(json);
    if (type == "Sequence") {
      for (const Json& inner : json.at("pretokenizers")) read_pre_tokenizer(inner, depth + 1);
      return;
    }
    PreTokenizerStep step;
    if (type == "BertPreTokenizer") {
      step.kind = Kind::kBert;
    } else if (type == "WhitespaceSplit") {
      step.kind = Kind::kWhitespaceSplit;
    } else if (type == "ByteLevel") {
      step.kind = Kind::kByteLevel;
      step.add_prefix_space = value(json, "add_prefix_space", true);
      step.use_regex = value(json, "use_regex", true);
      step.trim_offsets = value(json, "trim_offsets", true);
    } else if (type == "Metaspace") {
      step.kind = Kind::kMetaspace;
      if (value(json, "replacement", std::string("\xE2\x96\x81")) != "\xE2\x96\x81") {
        unsupported("Metaspace replacement", json.at("replacement").get<std::string>());
      }
      step.split = value(json, "split", true);
      const std::string old = value(json, "add_prefix_space", true) ? "always" : "never";
      const std::string scheme = value(json, "prepend_scheme", old);
      if (scheme != "always" && scheme != "first" && scheme != "never") unsupported("Metaspace prepend_scheme", scheme);
      step.prepend = scheme == "always"  ? PreTokenizerStep::Prepend::kAlways
                     : scheme == "first" ? PreTokenizerStep::Prepend::kFirst
                                         : PreTokenizerStep::Prepend::kNever;
    } else {
      unsupported("pre_tokenizer", type);
    }
    spec_.pre_tokenizer.push_back(step);
  }

  std::vector<TemplateItem> read_template(const Json& items, const Json& specials) const {
    std::vector<TemplateItem> out;
    for (const Json& item : items) {
      TemplateItem read;
      if (const Json* sequence = part(item, "Sequence")) {
        read.kind = sequence->at("id") == "A" ? TemplateItem::Kind::kFirst : TemplateItem::Kind::kSecond;
        read.type_id = value(*sequence, "type_id", 0);
        out.push_back(read);
        continue;
      }
      const Json& special = item.at("SpecialToken");
      read.kind = TemplateItem::Kind::kSpecial;
      read.type_id = value(special, "type_id", 0);
      for (const Json& id : specials.at(special.at("id").get<std::string>()).at("ids")) {
        read.id = id.get<std::int32_t>();
        out.push_back(read);
      }
    }
    return out;
  }

  void read_post_processor(const Json& json, int depth = 0) {
    if (depth > kMaxDepth) fail("sequences are nested too deeply");
    using Kind = TemplateItem::Kind;
    PostProcessorSpec& post = spec_.post_processor;
    const std::string type = type_of(json);
    if (type == "Sequence") {
      for (const Json& inner : json.at("processors")) read_post_processor(inner, depth + 1);
    } else if (type == "TemplateProcessing") {
      const Json& specials = json.at("special_tokens");
      post.single = read_template(json.at("single"), specials);
      post.pair = read_template(json.at("pair"), specials);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      const TemplateItem cls{Kind::kSpecial, json.at("cls").at(1).get<std::int32_t>(), 0};
      const TemplateItem sep{Kind::kSpecial, json.at("sep").at(1).get<std::int32_t>(), 0};
      post.single = {cls, {Kind::kFirst, 0, 0}, sep};
      if (type == "BertProcessing") {
        post.pair = {cls, {Kind::kFirst, 0, 0}, sep, {Kind::kSecond, 0, 1}, {Kind::kSpecial, sep.id, 1}};
      } else {
        post.pair = {cls, {Kind::kFirst, 0, 0}, sep, sep, {Kind::kSecond, 0, 0}, sep};
        post.trim_offsets = value(json, "trim_offsets", true);
        post.trim_keeps_prefix = value(json, "add_prefix_space", true);
      }
    } else if (type == "ByteLevel") {
      post.trim_offsets = value(json, "trim_offsets", true);
      post.trim_keeps_prefix = value(json, "add_prefix_space", true);
    } else {
      unsupported("post_processor", type);
    }
  }

  void read_decoder(const Json& json) {
    DecoderSpec& decoder = spec_.decoder;
    const std::string type = type_of(json);
    if (type == "WordPiece") {
      decoder.kind = DecoderSpec::Kind::kWordPiece;
      decoder.prefix = value(json, "prefix", std::string("##"));
      decoder.cleanup = value(json, "cleanup", true);
    } else if (type == "ByteLevel") {
      decoder.kind = DecoderSpec::Kind::kByteLevel;
    } else if (type == "Metaspace") {
      decoder.kind = DecoderSpec::Kind::kMetaspace;
      const std::string old = value(json, "add_prefix_space", true) ? "always" : "never";
      decoder.strip_first = value(json, "prepend_scheme", old) != "never";
    } else {
      unsupported("decoder", type);
    }
  }

  const Json& root_;
  const std::string& file_;
  TokenizerSpec spec_;
};

}  // namespace

TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& file) {
  const Json root = parse_json(json, file);
  try {
    return Reader(root, file).read();
  } catch (const Json::exception& error) {
    // A missing key, or a value of the wrong type.
    std::string_view reason = error.what();
    if (const auto end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    throw DataError(fmt::format("{}: not a valid tokenizer.json: {}", file, reason));
  }
}

}  // namespace chorus::inline text

#include "application/text/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "application/text/json_text.h"
#include "application/text/sentencepiece_family.h"
#include "application/text/tokenizer_json.h"
#include "application/text/vocab_files.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline text {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;

std::string in(const std::string& folder, const char* name) { return (fs::path(folder) / name).string(); }
bool exists(const std::string& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(in(folder, name), ignored);
}

Json read_optional(const std::string& folder, const char* name) {
  if (!exists(folder, name)) return Json::object();
  const std::string file = in(folder, name);
  Json json = parse_json(read_file(file, kMaxFileBytes), file);
  if (!json.is_object()) throw DataError(fmt::format("{}: expected a JSON object", file));
  return json;
}

/// The settings beside the vocabulary.
struct Settings {
  std::string folder;
  Json config;       ///< tokenizer_config.json
  Json special_map;  ///< special_tokens_map.json
  std::string tokenizer_class;
  std::string model_type;      ///< of config.json
  std::size_t model_rows = 0;  ///< vocab_size of config.json; 0: unknown

  explicit Settings(const std::string& where)
      : folder(where),
        config(read_optional(where, "tokenizer_config.json")),
        special_map(read_optional(where, "special_tokens_map.json")) {
    tokenizer_class = text_of(config, "tokenizer_class");
    const Json model = read_optional(where, "config.json");
    model_type = text_of(model, "model_type");
    if (model.contains("vocab_size") && model["vocab_size"].is_number_unsigned()) model_rows = model["vocab_size"];
  }

  /// A string, or an object with "content", as added tokens are written.
  static std::string text_of(const Json& json, const char* key) {
    const auto found = json.find(key);
    if (found == json.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("content") && found->at("content").is_string()) {
      return found->at("content").get<std::string>();
    }
    return {};
  }
  std::string special(const char* key) const {
    std::string name = text_of(config, key);
    return name.empty() ? text_of(special_map, key) : name;
  }
  SpecialNames names() const {
    return {special("pad_token"),  special("unk_token"), special("cls_token"), special("sep_token"),
            special("mask_token"), special("bos_token"), special("eos_token")};
  }
  std::optional<bool> flag(const char* key) const {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
  }
  bool mentions(std::string_view family) const {
    const auto lower = [](std::string text) {
      for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      return text;
    };
    if (!tokenizer_class.empty() && lower(tokenizer_class).find(family) != std::string::npos) return true;
    return lower(model_type).find(family) != std::string::npos;
  }
  bool says_family() const {
    for (const char* family : {"gpt2", "roberta", "bart", "bert", "t5", "albert"}) {
      if (mentions(family)) return true;
    }
    return false;
  }
};

void apply_config(const Settings& settings, TokenizerSpec& spec) {
  if (!settings.tokenizer_class.empty()) spec.tokenizer_class = settings.tokenizer_class;
  const auto length = settings.config.find("model_max_length");
  if (length != settings.config.end() && length->is_number()) {
    const double value = length->get<double>();
    if (value >= 1 && value < 1e9) spec.max_length = static_cast<std::size_t>(value);
  }
}

/// Tokens that tokenizer_config.json or added_tokens.json add to the vocabulary.
void apply_added(const Settings& settings, TokenizerSpec& spec) {
  const auto put = [&](AddedToken token) {
    for (auto& added : spec.added_tokens) {
      if (added.content != token.content) continue;
      if (added.id == token.id) added = token;
      return;
    }
    spec.added_tokens.push_back(std::move(token));
  };
  const std::string file = in(settings.folder, "added_tokens.json");
  const Json plain = read_optional(settings.folder, "added_tokens.json");
  for (const auto& [content, id] : plain.items()) {
    if (!id.is_number_integer()) throw DataError(fmt::format("{}: the id of '{}' is not an integer", file, content));
    AddedToken token;
    token.content = content;
    token.id = id.get<std::int32_t>();
    token.special = false;
    token.normalized = true;
    put(token);
  }
  const auto decoder = settings.config.find("added_tokens_decoder");
  if (decoder == settings.config.end() || !decoder->is_object()) return;
  for (const auto& [id, entry] : decoder->items()) {
    AddedToken token;
    try {
      token.id = std::stoi(id);
      token.content = entry.at("content").get<std::string>();
      token.special = entry.value("special", true);
      token.normalized = entry.value("normalized", !token.special);
      token.single_word = entry.value("single_word", false);
      token.lstrip = entry.value("lstrip", false);
      token.rstrip = entry.value("rstrip", false);
    } catch (const std::exception&) {
      throw DataError(
          fmt::format("{}: the added token '{}' is malformed", in(settings.folder, "tokenizer_config.json"), id));
    }
    put(token);
  }
}

/// BART-large-CNN and its descendants have a <mask> in the vocabulary but no row for it in the embedding. Such markers,
/// at the end and few, are left out: the model cannot read them.
void drop_markers_without_row(std::size_t rows, TokenizerSpec& spec) {
  constexpr std::size_t kMost = 16;
  auto& tokens = spec.model.tokens;
  if (rows == 0 || tokens.size() <= rows || tokens.size() > rows + kMost) return;
  for (std::size_t id = rows; id < tokens.size(); ++id) {
    if (!tokens[id].starts_with('<') || !tokens[id].ends_with('>')) return;
  }
  tokens.resize(rows);
  if (spec.model.scores.size() > rows) spec.model.scores.resize(rows);
  std::erase_if(spec.added_tokens, [&](const AddedToken& token) { return static_cast<std::size_t>(token.id) >= rows; });
  auto& names = spec.special;
  const Vocabulary left(tokens);
  for (std::string* name : {&names.pad, &names.unk, &names.cls, &names.sep, &names.mask, &names.bos, &names.eos}) {
    if (left.find(*name) == Vocabulary::kNone) name->clear();
  }
}

/// Special names that no file gives, from the tokens in the vocabulary.
void guess_names(TokenizerSpec& spec) {
  std::vector<std::string> tokens = spec.model.tokens;
  for (const auto& added : spec.added_tokens) tokens.push_back(added.content);
  const Vocabulary vocabulary(std::move(tokens));
  const auto pick = [&](std::string& name, std::initializer_list<const char*> candidates) {
    for (const char* candidate : candidates) {
      if (name.empty() && vocabulary.find(candidate) != Vocabulary::kNone) name = candidate;
    }
  };
  auto& names = spec.special;
  pick(names.pad, {"[PAD]", "<pad>"});
  pick(names.unk, {"[UNK]", "<unk>", "<|endoftext|>"});
  pick(names.mask, {"[MASK]", "<mask>"});
  pick(names.cls, {"[CLS]"});
  pick(names.sep, {"[SEP]"});
  if (spec.model.kind == ModelSpec::Kind::kWordPiece) return;
  if (spec.model.kind == ModelSpec::Kind::kBpe) {
    pick(names.cls, {"<s>"});
    pick(names.sep, {"</s>"});
    pick(names.bos, {"<s>", "<|endoftext|>"});
  }
  pick(names.eos, {"</s>", "<|endoftext|>"});
}

TokenizerSpec read_json_folder(const std::string& folder, const Settings& settings) {
  const std::string file = in(folder, "tokenizer.json");
  TokenizerSpec spec = read_tokenizer_json(read_file(file, kMaxFileBytes), file);
  spec.special = settings.names();
  guess_names(spec);
  switch (spec.model.kind) {
    case ModelSpec::Kind::kWordPiece:
      spec.tokenizer_class = "BertTokenizer";
      break;
    case ModelSpec::Kind::kBpe:
      spec.tokenizer_class = spec.post_processor.single.size() > 1 ? "RobertaTokenizer" : "GPT2Tokenizer";
      break;
    case ModelSpec::Kind::kUnigram:
      spec.tokenizer_class = spec.special.cls.empty() ? "T5Tokenizer" : "AlbertTokenizer";
      break;
  }
  return spec;
}

TokenizerSpec read_bert_folder(const std::string& folder, const Settings& settings) {
  const std::string file = in(folder, "vocab.txt");
  ModelSpec model;
  model.tokens = read_vocab_txt(read_file(file, kMaxFileBytes), file);
  BertOptions options;
  options.lowercase = settings.flag("do_lower_case").value_or(true);
  options.tokenize_chinese_chars = settings.flag("tokenize_chinese_chars").value_or(true);
  options.strip_accents = settings.flag("strip_accents");
  try {
    return bert_spec(std::move(model), options, settings.names());
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", file, error.what()));
  }
}

TokenizerSpec read_bpe_folder(const std::string& folder, const Settings& settings) {
  const std::string file = in(folder, "vocab.json");
  const std::string merges = in(folder, "merges.txt");
  if (!exists(folder, "merges.txt")) throw DataError(fmt::format("{}: the file {} is missing", file, merges));
  ModelSpec model;
  model.tokens = read_vocab_json(read_file(file, kMaxFileBytes), file);
  model.merges = read_merges(read_file(merges, kMaxFileBytes), model.tokens, merges);
  const bool prefix = settings.flag("add_prefix_space").value_or(false);
  bool roberta = settings.mentions("roberta") || settings.mentions("bart");
  if (!roberta && !settings.mentions("gpt2")) {
    const Vocabulary vocabulary(model.tokens);
    roberta = vocabulary.find("<s>") != Vocabulary::kNone && vocabulary.find("</s>") != Vocabulary::kNone &&
              vocabulary.find("<mask>") != Vocabulary::kNone;
  }
  try {
    return roberta ? roberta_spec(std::move(model), prefix, settings.names())
                   : gpt2_spec(std::move(model), prefix, settings.names());
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", file, error.what()));
  }
}

TokenizerSpec read_sentencepiece_folder(const std::string& folder, const Settings& settings) {
  const std::string file = in(folder, "spiece.model");
  SentencePieceOptions options;
  options.albert = settings.mentions("albert");
  options.family_known = settings.says_family();
  options.lowercase = settings.flag("do_lower_case").value_or(true);
  options.keep_accents = settings.flag("keep_accents").value_or(false);
  const auto extra = settings.config.find("extra_ids");
  if (extra != settings.config.end() && extra->is_number_integer()) {
    options.extra_ids = static_cast<int>(std::clamp<std::int64_t>(extra->get<std::int64_t>(), 0, 10000));
  }
  return sentencepiece_spec(read_file(file, kMaxFileBytes), file, options, settings.names());
}

}  // namespace

bool has_tokenizer(const std::string& folder) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model"}) {
    if (exists(folder, name)) return true;
  }
  return false;
}

TokenizerSpec read_tokenizer_folder(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(
        fmt::format("{}: no such folder; name the folder that holds tokenizer.json or the vocabulary (chorus model get "
                    "NAME downloads one)",
                    folder));
  }
  if (!has_tokenizer(folder)) {
    throw DataError(
        fmt::format("{}: holds no tokenizer: none of tokenizer.json, vocab.txt, vocab.json with merges.txt, "
                    "spiece.model",
                    folder));
  }
  const Settings settings(folder);
  TokenizerSpec spec;
  if (exists(folder, "tokenizer.json")) {
    spec = read_json_folder(folder, settings);
  } else {
    spec = exists(folder, "vocab.txt")    ? read_bert_folder(folder, settings)
           : exists(folder, "vocab.json") ? read_bpe_folder(folder, settings)
                                          : read_sentencepiece_folder(folder, settings);
    apply_added(settings, spec);
  }
  drop_markers_without_row(settings.model_rows, spec);
  apply_config(settings, spec);
  return spec;
}

}  // namespace chorus::inline text

namespace chorus::inline text {

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& folder) {
  text::TokenizerSpec spec = text::read_tokenizer_folder(folder);
  try {
    return std::make_shared<const Tokenizer>(std::move(spec));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", folder, error.what()));
  } catch (const std::invalid_argument& error) {
    throw DataError(fmt::format("{}: {}", folder, error.what()));
  }
}

}  // namespace chorus::inline text

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "application/text/hugging_face.h"
#include "application/text/tokenizer_json.h"
#include "application/text/vocab_files.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline text {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson special_json(const text::SpecialNames& names) {
  OrderedJson json = OrderedJson::object();
  const auto put = [&](const char* key, const std::string& name) {
    if (!name.empty()) json[key] = name;
  };
  put("pad_token", names.pad);
  put("unk_token", names.unk);
  put("cls_token", names.cls);
  put("sep_token", names.sep);
  put("mask_token", names.mask);
  put("bos_token", names.bos);
  put("eos_token", names.eos);
  return json;
}

OrderedJson config_json(const text::TokenizerSpec& spec) {
  OrderedJson json = special_json(spec.special);
  json["tokenizer_class"] = spec.tokenizer_class.empty() ? "PreTrainedTokenizerFast" : spec.tokenizer_class;
  constexpr std::size_t kUnlimited = 1'000'000'000;
  if (spec.max_length < kUnlimited) json["model_max_length"] = spec.max_length;
  json["clean_up_tokenization_spaces"] = false;
  for (const auto& step : spec.normalizer) {
    if (step.kind == text::NormalizerStep::Kind::kLowercase) json["do_lower_case"] = true;
    if (step.kind != text::NormalizerStep::Kind::kBert) continue;
    json["do_lower_case"] = step.lowercase;
    json["tokenize_chinese_chars"] = step.handle_chinese_chars;
    json["strip_accents"] = step.strip_accents ? OrderedJson(*step.strip_accents) : OrderedJson();
  }
  for (const auto& step : spec.pre_tokenizer) {
    if (step.kind == text::PreTokenizerStep::Kind::kByteLevel) json["add_prefix_space"] = step.add_prefix_space;
  }
  OrderedJson added = OrderedJson::object();
  for (const auto& token : spec.added_tokens) {
    added[std::to_string(token.id)] = {{"content", token.content},         {"lstrip", token.lstrip},
                                       {"normalized", token.normalized},   {"rstrip", token.rstrip},
                                       {"single_word", token.single_word}, {"special", token.special}};
  }
  json["added_tokens_decoder"] = std::move(added);
  return json;
}

}  // namespace

void save_tokenizer(const Tokenizer& tokenizer, const std::string& folder) {
  const auto& spec = tokenizer.spec();
  const std::filesystem::path path(folder);
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) throw WorldError(fmt::format("{}: cannot create the folder: {}", folder, failure.message()));
  write_file(path / "tokenizer.json", text::write_tokenizer_json(spec));
  write_file(path / "tokenizer_config.json", config_json(spec).dump(2) + "\n");
  write_file(path / "special_tokens_map.json", special_json(spec.special).dump(2) + "\n");
  switch (spec.model.kind) {
    case text::ModelSpec::Kind::kWordPiece:
      write_file(path / "vocab.txt", text::write_vocab_txt(spec.model.tokens));
      break;
    case text::ModelSpec::Kind::kBpe:
      write_file(path / "vocab.json", text::write_vocab_json(spec.model.tokens));
      write_file(path / "merges.txt", text::write_merges(spec.model));
      break;
    case text::ModelSpec::Kind::kUnigram:
      if (!spec.sentencepiece.empty()) write_file(path / "spiece.model", spec.sentencepiece);
      break;
  }
}

}  // namespace chorus::inline text

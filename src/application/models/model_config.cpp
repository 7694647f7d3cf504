#include "application/models/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline models {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLargestConfig = 64 << 20;

[[noreturn]] void wrong(const std::string& origin, const std::string& key, const Json& value, const char* allowed) {
  std::string shown = value.dump();
  if (shown.size() > 40) shown = shown.substr(0, 40) + "...";
  throw DataError(fmt::format("{}: '{}' is {}, but must be {}", origin, key, shown, allowed));
}

// Files of 2018 and 2019 have no model_type; each family has its own names for sizes.
std::string type_by_keys(const Json& json) {
  const auto all = [&](std::initializer_list<const char*> keys) {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return json.contains(key); });
  };
  if (all({"n_embd", "n_layer", "n_head"})) return "gpt2";
  if (all({"d_model", "d_kv", "d_ff"})) return "t5";
  if (all({"d_model", "encoder_ffn_dim", "decoder_ffn_dim"})) return "bart";
  if (all({"dim", "n_layers", "n_heads"})) return "distilbert";
  if (all({"hidden_size", "num_hidden_layers", "num_attention_heads", "type_vocab_size"})) {
    return json["type_vocab_size"] == 1 ? "roberta" : "bert";
  }
  return "";
}

}  // namespace

ModelConfig ModelConfig::read(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw DataError(
        fmt::format("{}: no such file; a model is a folder with config.json and model.safetensors, as "
                    "Hugging Face writes it",
                    file.string()));
  }
  return parse(read_file(file, kLargestConfig), file.string());
}

ModelConfig ModelConfig::parse(const std::string& text, const std::string& origin) {
  ModelConfig config;
  config.origin_ = origin;
  auto json = std::make_shared<Json>();
  try {
    *json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw DataError(fmt::format("{}: not valid JSON at byte {}; is the file complete?", origin, error.byte));
  }
  if (!json->is_object()) throw DataError(fmt::format("{}: must hold a JSON object", origin));
  if (!json->contains("model_type")) {
    if (const std::string type = type_by_keys(*json); !type.empty()) (*json)["model_type"] = type;
  }
  config.json_ = std::move(json);
  config.model_type_ = config.text("model_type", "");
  return config;
}

std::string ModelConfig::architecture() const {
  if (!has("architectures")) return "";
  const Json& list = (*json_)["architectures"];
  if (list.is_array() && list.empty()) return "";
  if (!list.is_array() || !list.front().is_string()) {
    wrong(origin_, "architectures", list, "a list of class names");
  }
  return list.front().get<std::string>();
}

std::optional<Head> ModelConfig::head() const {
  const std::string name = architecture();
  if (name.ends_with("LMHeadModel")) return Head::kCausalLm;  // Hugging Face's older style
  // The longest ending: "BertModel" is a bare model, "BertForXModel" would be another.
  std::optional<Head> found;
  for (const Head head : all_heads()) {
    const std::string_view ending = head->class_ending;
    if (name.ends_with(ending) && (!found || ending.size() > std::string_view((*found)->class_ending).size()))
      found = head;
  }
  return found;
}

bool ModelConfig::has(const std::string& key) const {
  if (asked_ != nullptr) asked_->insert(key);
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

std::int64_t ModelConfig::integer(const std::string& key, std::optional<std::int64_t> fallback, std::int64_t minimum,
                                  std::int64_t maximum) const {
  if (!has(key)) {
    if (fallback) return *fallback;
    throw DataError(fmt::format("{}: the key '{}' is missing", origin_, key));
  }
  const Json& value = (*json_)[key];
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(minimum) ||
      value.get<double>() > static_cast<double>(maximum)) {
    wrong(origin_, key, value, fmt::format("a whole number from {} to {}", minimum, maximum).c_str());
  }
  return value.get<std::int64_t>();
}

double ModelConfig::number(const std::string& key, double fallback) const {
  if (!has(key)) return fallback;
  const Json& value = (*json_)[key];
  if (!value.is_number() || !std::isfinite(value.get<double>())) wrong(origin_, key, value, "a number");
  return value.get<double>();
}

double ModelConfig::probability(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  if (value < 0 || value >= 1) wrong(origin_, key, value, "at least 0 and below 1");
  return value;
}

bool ModelConfig::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = (*json_)[key];
  if (!value.is_boolean()) wrong(origin_, key, value, "true or false");
  return value.get<bool>();
}

std::string ModelConfig::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  const Json& value = (*json_)[key];
  if (!value.is_string()) wrong(origin_, key, value, "a string");
  return value.get<std::string>();
}

std::optional<std::int64_t> ModelConfig::token(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const Json& value = (*json_)[key];
  const Json& id = value.is_array() && !value.empty() ? value.front() : value;
  if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > 2147483647.0) {
    wrong(origin_, key, value, "a token id");
  }
  return id.get<std::int64_t>();
}

std::vector<std::string> ModelConfig::labels() const {
  const auto found = json_->find("id2label");
  if (found == json_->end() || found->is_null()) {
    return numbered_labels(integer("num_labels", 2, 1, kMostLabels));
  }
  if (!found->is_object() || found->empty()) wrong(origin_, "id2label", *found, "an object from id to name");
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto entry = found->find(std::to_string(i));
    if (entry == found->end() || !entry->is_string()) {
      throw DataError(fmt::format("{}: 'id2label' has {} entries but no name for id {}", origin_, found->size(), i));
    }
    labels.push_back(entry->get<std::string>());
  }
  return labels;
}

void ModelConfig::set_labels(const std::vector<std::string>& labels) {
  auto json = std::make_shared<Json>(*json_);
  Json names = Json::object(), ids = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    ids[labels[i]] = i;
  }
  (*json)["id2label"] = names;
  (*json)["label2id"] = ids;
  json->erase("num_labels");
  json_ = std::move(json);
}

void ModelConfig::set_text(const std::string& key, const std::string& value) {
  auto json = std::make_shared<Json>(*json_);
  (*json)[key] = value;
  json_ = std::move(json);
}

void ModelConfig::inherit(const ModelConfig& other) {
  auto json = std::make_shared<Json>(*json_);
  for (const auto& [key, value] : other.json_->items()) {
    if (!json->contains(key) || (*json)[key].is_null()) (*json)[key] = value;
  }
  json_ = std::move(json);
}

void ModelConfig::set_architecture(const std::string& class_name) {
  auto json = std::make_shared<Json>(*json_);
  (*json)["architectures"] = Json::array({class_name});
  json_ = std::move(json);
}

std::vector<std::string> numbered_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

std::vector<std::string> ModelConfig::keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : json_->items()) keys.push_back(entry.key());
  return keys;
}

std::string ModelConfig::dump() const { return json_->dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace chorus::inline models

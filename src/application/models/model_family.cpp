#include "application/models/model_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "application/models/model.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace chorus::inline models {

std::string ModelFamily::class_name(Head head) const {
  for (const auto& [other, ending] : class_endings) {
    if (other == head) return class_prefix + ending;
  }
  return class_prefix + head->class_ending;
}

bool ModelFamily::has(Head head) const {
  return std::find(heads.begin(), heads.end(), head) != heads.end() || (takes_modules && head->module != nullptr);
}

ModelFamily family_of(const ModelConfig& config) {
  const std::string& type = config.model_type();
  if (type.empty()) throw DataError(fmt::format("{}: the key 'model_type' is missing", config.origin()));
  const std::string mistake = RegistryIndex::global().mistake(ModelFamily::kKind, type);
  if (!mistake.empty()) throw DataError(fmt::format("{}: {}", config.origin(), mistake));
  return *Models::make(type);
}

void require_known_keys(const ModelConfig& config) {
  const ModelFamily family = family_of(config);
  std::set<std::string> known{"model_type", "architectures",        "id2label",          "label2id",
                              "num_labels", "vocab_size",           "torch_dtype",       "dtype",
                              "use_cache",  "transformers_version", "is_encoder_decoder"};
  ModelConfig watched = config;
  watched.record_keys(known);
  for (const Head head : family.heads) family.make(watched, head);
  for (const std::string& key : config.keys()) {
    if (known.contains(key) || key.ends_with("_token_id")) continue;
    throw ConfigError(fmt::format("{}: a {} network has no setting '{}'{}", config.origin(), config.model_type(), key,
                                  did_you_mean(key, std::vector<std::string>(known.begin(), known.end()))));
  }
}

}  // namespace chorus::inline models

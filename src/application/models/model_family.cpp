#include "application/models/model_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

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

}  // namespace chorus::inline models

#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "application/models/model_config.h"

namespace chorus::inline experiment {

/// The config.json of a new network from the keys of `model.fresh`; the tokenizer's vocabulary is its vocab_size unless
/// the keys have one. ConfigError for a key that networks of this type do not read: a misspelt one would otherwise mean
/// the default.
ModelConfig fresh_network(const std::map<std::string, std::string>& keys, std::size_t vocabulary);

}  // namespace chorus::inline experiment

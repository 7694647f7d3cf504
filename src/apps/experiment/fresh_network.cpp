#include "apps/experiment/fresh_network.h"

#include <nlohmann/json.hpp>

#include "application/models/model_family.h"

namespace chorus::inline experiment {
namespace {

// Numbers and booleans are written as such in config.json.
nlohmann::json json_of(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_discarded() || parsed.is_object() || parsed.is_array() ? nlohmann::json(text) : parsed;
}

}  // namespace

ModelConfig fresh_network(const std::map<std::string, std::string>& keys, std::size_t vocabulary) {
  nlohmann::json config;
  for (const auto& [key, value] : keys) config[key] = json_of(value);
  if (!config.contains("vocab_size")) config["vocab_size"] = vocabulary;
  const ModelConfig network = ModelConfig::parse(config.dump(), "model.fresh");
  require_known_keys(network);
  return network;
}

}  // namespace chorus::inline experiment

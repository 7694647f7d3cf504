#include "application/peft/sub_network.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace chorus::inline peft {
namespace {

struct SizeKeys {
  const char* type;
  const char* layers;
  std::int64_t default_layers;
  const char* inner;
};

constexpr SizeKeys kSizeKeys[] = {{"bert", "num_hidden_layers", 12, "intermediate_size"},
                                  {"roberta", "num_hidden_layers", 12, "intermediate_size"},
                                  {"distilbert", "n_layers", 6, "hidden_dim"},
                                  {"gpt2", "n_layer", 12, "n_inner"}};

const SizeKeys* keys_of(const ModelConfig& config) {
  for (const SizeKeys& keys : kSizeKeys) {
    if (config.model_type() == keys.type) return &keys;
  }
  return nullptr;
}

}  // namespace

std::optional<NetworkSizes> network_sizes(const ModelConfig& config) {
  const SizeKeys* keys = keys_of(config);
  if (keys == nullptr) return std::nullopt;
  const std::int64_t inner = config.model_type() == "gpt2"
                                 ? config.integer("n_inner", 4 * config.integer("n_embd", 768))
                                 : config.integer(keys->inner, 3072);
  return NetworkSizes{static_cast<int>(config.layers(keys->layers, keys->default_layers)), static_cast<int>(inner)};
}

ModelConfig resized(const ModelConfig& config, const NetworkSizes& sizes) {
  const SizeKeys* keys = keys_of(config);
  check(keys != nullptr, "only networks whose sizes are known can be resized");
  nlohmann::json json = nlohmann::json::parse(config.dump());
  json[keys->layers] = sizes.layers;
  json[keys->inner] = sizes.inner;
  return ModelConfig::parse(json.dump(), config.origin());
}

}  // namespace chorus::inline peft

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace chorus::inline tests {

/// The config.json of a tiny network of any family: each reads the keys that it knows.
inline nlohmann::json tiny_network(const std::string& type, std::size_t vocabulary = 50, int layers = 1) {
  nlohmann::json json{{"model_type", type}, {"vocab_size", vocabulary}, {"decoder_start_token_id", 0}, {"d_kv", 8}};
  for (const char* key : {"hidden_size", "dim", "n_embd", "d_model", "embedding_size"}) json[key] = 16;
  for (const char* key :
       {"num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers"}) {
    json[key] = layers;
  }
  for (const char* key : {"num_attention_heads", "n_heads", "n_head", "num_heads", "encoder_attention_heads",
                          "decoder_attention_heads"}) {
    json[key] = 2;
  }
  for (const char* key : {"intermediate_size", "hidden_dim", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"}) {
    json[key] = 32;
  }
  return json;
}

}  // namespace chorus::inline tests

#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "application/tasks/encode_split.h"
#include "application/tasks/tiny_world_test.h"
#include "application/trainer/train_client.h"

namespace chorus::tiny {

/// A client's texts, and a network of any family with three layers (encoder-decoders: two and one) and dropout.
struct NetworkWorld {
  NetworkWorld(Formulation formulation, const std::string& task_name, const std::string& type, bool tied = true)
      : data(dataset(formulation, 30, 4)), words(tokenizer(data)) {
    ModelConfig config = config_of(type, words->vocabulary_size(), tied);
    TaskInput input = TaskInput::of(data, words);
    input.model = config;
    task = Tasks::make(task_name, input);
    if (!task->head_labels().empty()) config.set_labels(task->head_labels());
    model = make_model(config, task->head());
    params.emplace(model->layout(), Params::Options{});
    params->initialise(3);
    const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
    client = {7, task->client_data(encoded, data.split(Split::kTrain).first(20)), 20};
  }

  static ModelConfig config_of(const std::string& type, std::int64_t vocabulary, bool tied) {
    std::string json = "{";
    const auto set = [&](std::initializer_list<const char*> keys, const auto& value) {
      for (const char* key : keys) json += fmt::format(R"("{}": {}, )", key, value);
    };
    set({"hidden_size", "dim", "n_embd", "d_model", "embedding_size"}, 16);
    set({"num_hidden_layers", "n_layers", "n_layer"}, 3);
    set({"num_layers", "encoder_layers"}, 2);
    set({"decoder_layers", "num_decoder_layers"}, 1);
    set({"num_attention_heads", "n_heads", "n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads"},
        2);
    set({"intermediate_size", "hidden_dim", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"}, 32);
    set({"pad_token_id"}, 0);
    set({"decoder_start_token_id"}, 2);
    set({"d_kv"}, 8);
    set({"dropout"}, 0.1);
    set({"tie_word_embeddings"}, tied);
    return ModelConfig::parse(json + fmt::format(R"("model_type": "{}", "vocab_size": {}}})", type, vocabulary), type);
  }
  TrainerInput trainer() const { return {*task, *model, *params}; }
  at::Tensor start() const { return params->values()[0]; }

  Dataset data;
  std::shared_ptr<const Tokenizer> words;
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model;
  std::optional<Params> params;
  TrainClient client;
};

}  // namespace chorus::tiny

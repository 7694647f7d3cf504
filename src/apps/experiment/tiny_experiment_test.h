#pragma once

#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"
#include "core/config/config.h"

namespace chorus::inline experiment {

/// An experiment that loads within a second: 160 generated texts on 3 topics, a BERT of two narrow layers.
inline ExperimentConfig tiny_experiment(const std::vector<std::string>& overrides = {}) {
  std::string text = R"(
kind: experiment
name: tiny
seed: 3
data: {format: synthetic, train: ["formulation=text_classification,examples=160,test_examples=60,labels=3,seed=7"]}
encoding: {cache: none}
task: {name: text_classification, max_length: 24}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 40}
  tokenizer: FOLDER/models/chorus-mini
clients: {count: 12, partition: uniform}
rounds: 2
clients_per_round: 3
trainer: {batch_size: 8, learning_rate: 1.0e-2}
federation: {workers: 1}
)";
  text.replace(text.find("FOLDER"), 6, CHORUS_SOURCE_DIR);
  return ConfigDocument::parse(text, "tiny.yaml", overrides).load<ExperimentConfig>();
}

}  // namespace chorus::inline experiment

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "application/data/dataset_builder.h"
#include "application/models/model_config.h"
#include "application/text/tokenizer.h"

/// Data, tokenizer and models that are small enough to train in a test.
namespace chorus::tiny {

/// Example `i`: a pure function of its index.
Record record(Formulation formulation, std::uint64_t i);
Dataset dataset(Formulation formulation, std::uint64_t train = 96, std::uint64_t test = 24);

/// A lower-casing WordPiece tokenizer like BERT's, learnt from the data.
std::shared_ptr<const Tokenizer> tokenizer(const Dataset& data, std::size_t vocabulary = 300);

/// BERT, GPT-2 or T5, whichever has the head.
ModelConfig model_config(Head head, const Tokenizer& tokenizer, const std::vector<std::string>& labels = {});

}  // namespace chorus::tiny

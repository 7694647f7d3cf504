#pragma once

#include <cstdint>
#include <optional>

#include "application/models/model_config.h"

namespace chorus::inline peft {

/// The two sizes by which a transformer can be made smaller so that its weights are leading blocks of the whole's: how
/// many layers it has, from the bottom, and how wide the inside of its feed-forward sublayers is.
struct NetworkSizes {
  int layers = 0;
  int inner = 0;
};

/// Of a BERT, RoBERTa, DistilBERT or GPT-2; nothing for other families.
std::optional<NetworkSizes> network_sizes(const ModelConfig& config);

/// The same network with these sizes. InternalError for a family that `network_sizes` does not know.
ModelConfig resized(const ModelConfig& config, const NetworkSizes& sizes);

}  // namespace chorus::inline peft

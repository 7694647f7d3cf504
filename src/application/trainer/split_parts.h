#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "application/models/model.h"
#include "core/ports/split.h"

namespace chorus::inline trainer {

/// One side's part of a network that is cut in two: the same model with a layout in which only this side's parameters
/// train. The values of the other side are not held.
struct SplitSide {
  Params base;        ///< C = 1; what training starts from, apart from the values
  at::Tensor places;  ///< int64: where its trainable elements are in the whole's vector [P]
  /// Parameters that the other side reads, too. The client owns them, so `own` of a server is without them.
  std::vector<ParamId> shared;
  at::Tensor own;  ///< int64: elements of this side's vector that belong to it
  int layers = 0;  ///< that it runs
  bool head = false;
};

enum class SplitRole { kClient, kServer };

/// ConfigError for a network that cannot be cut there: k beyond the depth, nothing left for the server, a network
/// without layers to cut between (LSTM).
void check_cut(const Model& model, const SplitCut& cut);

/// `whole` provides the device and the values of parameters that do not train.
SplitSide split_side(const Model& model, const Params& whole, const SplitCut& cut, SplitRole role);

SplitParts split_parts(const Model& model, const Params& whole, const SplitCut& cut);

/// Bytes for values, gradients and two moments of a side's parameters, and for the activations of so many tokens.
double side_memory(const Model& model, const SplitSide& side, double tokens);

/// The largest number of layers for which a client's side needs at most so many bytes, with batches of so many tokens;
/// nothing if even the embeddings need more.
std::optional<int> layers_for_memory(const Model& model, const Params& whole, double bytes, double tokens,
                                     bool labels_stay);

}  // namespace chorus::inline trainer

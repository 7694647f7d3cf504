#pragma once

#include <torch/types.h>

#include <utility>

#include "application/models/ops/packing.h"
#include "core/tensor/params.h"

namespace chorus::inline ops {

/// One direction of an LSTM over all sequences of a cohort, on a CPU: what the steps of
/// application/models/recurrent.cpp do, with one product and one pass a step. Sequences are sorted by length, so that
/// those still running lie side by side; the gradients of the steps' products are one product at the end.
struct LstmSteps {
  ParamId weight, bias;  ///< of the state: [4h, h], [4h]
  bool backward = false;
};

/// Whether these steps can be made so.
bool lstm_can(const Params& params, const LstmSteps& steps, const at::Tensor& projected);

/// `projected` [C, T, 4h]: what the input says to the gates i, f, g, o. Returns the states [C, T, h] and the last state
/// of each sequence [C, B, h].
std::pair<at::Tensor, at::Tensor> lstm(const Params& params, const LstmSteps& steps, const at::Tensor& projected,
                                       const Packing& packing);

}  // namespace chorus::inline ops

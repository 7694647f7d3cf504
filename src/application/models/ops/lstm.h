#pragma once

#include <torch/types.h>

#include <utility>

#include "application/models/ops/packing.h"
#include "core/tensor/params.h"

namespace chorus::inline ops {

/// One direction of an LSTM over all sequences of a cohort, on a CPU: the steps of application/models/recurrent.cpp
/// with one matmul and one pass per step. Sequences are sorted by length, so that the running ones are contiguous; the
/// weight gradients of all steps are one matmul at the end.
struct LstmSteps {
  ParamId weight, bias;  ///< recurrent: [4h, h], [4h]
  bool backward = false;
};

/// Whether this implementation supports the call.
bool lstm_can(const Params& params, const LstmSteps& steps, const at::Tensor& projected);

/// `projected` [C, T, 4h]: the input's contribution to the gates i, f, g, o. Returns the states [C, T, h] and the last
/// state of each sequence [C, B, h].
std::pair<at::Tensor, at::Tensor> lstm(const Params& params, const LstmSteps& steps, const at::Tensor& projected,
                                       const Packing& packing);

}  // namespace chorus::inline ops

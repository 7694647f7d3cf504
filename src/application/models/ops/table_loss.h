#pragma once

#include <torch/types.h>

#include "core/tensor/params.h"

namespace chorus::inline ops {

/// The cross entropy of a language model, head and loss in one: of the logits x table^T + bias for x [C, M, H], with
/// labels [C, M] of which `ignored` are not looked at. [C], each client's mean; what cross_entropy makes of
/// project_to_table. The logits become their own gradients where they lie, those nobody asks for are not computed, and
/// the mean is a factor of the products back. Undefined where there is no kernel: on a GPU, or for plain operators.
struct LanguageHead {
  ParamId table;      ///< [V, H]
  ParamId bias = {};  ///< [V]; may not exist
};
at::Tensor table_loss(const Params& params, const LanguageHead& head, const at::Tensor& x, const at::Tensor& labels,
                      std::int64_t ignored);

}  // namespace chorus::inline ops

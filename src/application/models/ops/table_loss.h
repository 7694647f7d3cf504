#pragma once

#include <torch/types.h>

#include "core/tensor/params.h"

namespace chorus::inline ops {

/// Head and cross entropy of a language model in one: of the logits x table^T + bias for x [C, M, H], with labels [C,
/// M], skipping those equal to `ignored`. Returns each client's mean [C], as cross_entropy of project_to_table. The
/// logits become their gradients in place, rows without a counted label are not computed, and the backward matmuls
/// apply the factor of the mean. Undefined on a GPU and for plain kernels.
struct LanguageHead {
  ParamId table;      ///< [V, H]
  ParamId bias = {};  ///< [V]; may not exist
};
at::Tensor table_loss(const Params& params, const LanguageHead& head, const at::Tensor& x, const at::Tensor& labels,
                      std::int64_t ignored);

}  // namespace chorus::inline ops

#pragma once

#include <torch/types.h>

#include "application/models/ops/attachments.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/layers.h"

namespace chorus::inline ops {

/// norm(dropout(f) + x), the end of a sub-layer of a post-norm network. f and x are [C, T, H]. A fused kernel takes one
/// pass forward and one backward; without one, and for T5's norm, it uses separate operators.
at::Tensor residual_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability);

/// x + dropout(f), and its norm: the end of a sub-layer of a pre-norm network and the start of the next. One pass on a
/// CPU.
struct SumAndNorm {
  at::Tensor sum, normal;
};
SumAndNorm sum_then_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability);

/// Layer normalisation with weights per client, by the same kernels; undefined if no kernel supports it.
at::Tensor cohort_norm(const Params& params, const Norm& norm, const at::Tensor& x);

/// The end of a sub-layer of a post-norm network: norm(dropout(f) + x) for f = linear(input), with an adapter if one is
/// attached.
struct SublayerEnd {
  const Norm& norm;
  const Adapter& adapter;
  double dropout;

  at::Tensor operator()(const Params& params, const Linear& linear, const at::Tensor& input, const at::Tensor& x,
                        Dropout& masks) const;
};

}  // namespace chorus::inline ops

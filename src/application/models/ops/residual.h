#pragma once

#include <torch/types.h>

#include "application/models/ops/attachments.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/layers.h"

namespace chorus::inline ops {

/// norm(dropout(f) + x): what ends a sub-layer of a post-norm network. f and x are [C, T, H]. With a kernel
/// one pass over memory forward and one backward; else, and for T5's norm, the operators it is made of.
at::Tensor residual_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability);

/// x + dropout(f), and its norm: what ends a sub-layer of a pre-norm network and begins the next. On a CPU one pass.
struct SumAndNorm {
  at::Tensor sum, normal;
};
SumAndNorm sum_then_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability);

/// A layer normalisation with weights per client, by the same kernels; undefined where no kernel fits.
at::Tensor cohort_norm(const Params& params, const Norm& norm, const at::Tensor& x);

/// How a sub-layer of a post-norm network ends: norm(dropout(f) + x) for f = linear(input), with an adapter where one
/// is attached.
struct SublayerEnd {
  const Norm& norm;
  const Adapter& adapter;
  double dropout;

  at::Tensor operator()(const Params& params, const Linear& linear, const at::Tensor& input, const at::Tensor& x,
                        Dropout& masks) const;
};

}  // namespace chorus::inline ops

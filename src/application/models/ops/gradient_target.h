#pragma once

#include <torch/autograd.h>
#include <torch/custom_class.h>

#include "core/tensor/params.h"

namespace chorus::inline ops {

/// Where a matmul writes the gradient of its weight, or of several joined weights: a range of a Params' gradients,
/// parts of which may be written already (GradientWrites). Kept by autograd functions.
struct GradientTarget : torch::CustomClassHolder {
  GradientTarget(c10::intrusive_ptr<GradientWrites> of, int begin, int number, std::int64_t place)
      : writes(std::move(of)), first(begin), count(number), offset(place) {}

  /// Marks the gradient as written, and returns whether it was before, so that the caller must accumulate. If only some
  /// parts were, the others are zeroed.
  bool take(const at::Tensor& gradient) const;

  /// Whether a GradientTaker receives the gradient instead of the buffer. If so, call `give` once nothing in this pass
  /// reads the values any more.
  bool given() const;
  void give(const at::Tensor& gradient) const;

  /// Keeps the target for a function's backward pass. `take_kept` returns true (accumulate) if there is none.
  static void keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<GradientTarget>& target);
  static bool take_kept(torch::autograd::AutogradContext& context, const at::Tensor& gradient);
  /// Null if none was kept.
  static c10::intrusive_ptr<GradientTarget> kept(torch::autograd::AutogradContext& context);

  c10::intrusive_ptr<GradientWrites> writes;
  int first, count;
  std::int64_t offset;  // in a client's elements
};

/// For `count` parameters from `first` on; null if they do not train. Make one per use.
c10::intrusive_ptr<GradientTarget> gradient_target(const Params& params, ParamId first, int count);

}  // namespace chorus::inline ops

#pragma once

#include <torch/autograd.h>
#include <torch/custom_class.h>

#include "core/tensor/params.h"

namespace chorus::inline ops {

/// Where a product writes the gradient of its weight, or of several that are one: among those of a Params, of which
/// some hold something already (GradientWrites). Kept by the functions of a backward pass.
struct GradientTarget : torch::CustomClassHolder {
  GradientTarget(c10::intrusive_ptr<GradientWrites> of, int begin, int number, std::int64_t place)
      : writes(std::move(of)), first(begin), count(number), offset(place) {}

  /// Whether the gradient holds something to add to; it does from now on. Where only some parts do, the others are
  /// filled.
  bool take(const at::Tensor& gradient) const;

  /// Whether somebody takes the gradient as soon as it is there, instead of its place; then `give` it, once nothing of
  /// this pass reads the values.
  bool given() const;
  void give(const at::Tensor& gradient) const;

  /// For the backward pass of a function, which then takes what was kept; with none, there is something to add to.
  static void keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<GradientTarget>& target);
  static bool take_kept(torch::autograd::AutogradContext& context, const at::Tensor& gradient);
  /// Null when none was.
  static c10::intrusive_ptr<GradientTarget> kept(torch::autograd::AutogradContext& context);

  c10::intrusive_ptr<GradientWrites> writes;
  int first, count;
  std::int64_t offset;  // of a client's numbers
};

/// Of `count` parameters from `first` on; null when they do not train. Made once for each use of them.
c10::intrusive_ptr<GradientTarget> gradient_target(const Params& params, ParamId first, int count);

}  // namespace chorus::inline ops

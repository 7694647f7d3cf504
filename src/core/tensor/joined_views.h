#pragma once

#include <torch/types.h>

#include <functional>
#include <unordered_map>

#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// Parameters that a StoragePlan joins (the query, key and value weights of an attention layer) as one view, [C, count
/// * rows, ...] or [count * rows, ...]: one matmul instead of several. A joint has no view if its parameters are not
/// adjacent, or if only some of them train.
class JoinedViews {
 public:
  JoinedViews() = default;
  /// Adds the joints of trainable or of frozen parameters; `view` makes the view of a spec.
  void add(const Layout& layout, bool trainable, const std::function<at::Tensor(const ParamSpec&)>& view);

  /// By the first parameter of the joint; undefined if there is no view.
  const at::Tensor& operator[](ParamId first) const;

 private:
  std::unordered_map<int, at::Tensor> views_;
};

}  // namespace chorus::inline tensor

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/tensor/joined_views.h"
#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// The bfloat16 copy of a frozen vector, made when first asked for and shared by all Params that share the vector.
class FrozenShadow {
 public:
  struct Views {
    std::vector<at::Tensor> single;  ///< by parameter; undefined for those that train
    JoinedViews joined;
  };
  /// Up to date with the vector.
  std::shared_ptr<const Views> views(const std::shared_ptr<const Layout>& layout, const at::Tensor& frozen);

 private:
  std::mutex mutex_;
  at::Tensor elements_;
  std::uint32_t version_ = 0;  // of the vector it was copied from
  std::shared_ptr<const Views> views_;
  std::shared_ptr<const Layout> layout_;  // of the views
};

/// The bfloat16 shadow copy of every parameter, which matmuls read in mixed precision. Whoever changes the values
/// brings it up to date (put_as_bfloat16, or an optimizer step). Without one, every tensor here is undefined.
class Bfloat16Shadow {
 public:
  Bfloat16Shadow() = default;
  /// Of values [C, P]; `rows` [C, P] is the memory of the copy.
  Bfloat16Shadow(const Layout& layout, at::Tensor rows, std::shared_ptr<const FrozenShadow::Views> frozen);

  bool exists() const { return values_.defined(); }
  /// [C, P] of what trains.
  const at::Tensor& values() const { return values_; }
  /// As params[id] and params.joined(first), without autograd.
  const at::Tensor& operator[](ParamId id) const;
  const at::Tensor& joined(ParamId first) const { return joined_[first]; }

  /// Of clients [begin, begin + count) alone, on the same memory.
  Bfloat16Shadow rows(const Layout& layout, std::int64_t begin, std::int64_t count) const;

 private:
  at::Tensor values_;
  std::shared_ptr<const FrozenShadow::Views> frozen_;
  std::vector<at::Tensor> views_;
  JoinedViews joined_;
};

}  // namespace chorus::inline tensor

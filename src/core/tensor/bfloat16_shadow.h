#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/tensor/joined_views.h"
#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// The bfloat16 copy of a frozen vector, made on first use and shared by all Params that share the vector.
class FrozenShadow {
 public:
  struct Views {
    std::vector<at::Tensor> single;  ///< by parameter; undefined for trainable ones
    JoinedViews joined;
  };
  /// Updated if the vector has changed.
  std::shared_ptr<const Views> views(const std::shared_ptr<const Layout>& layout, const at::Tensor& frozen);

 private:
  std::mutex mutex_;
  at::Tensor elements_;
  std::uint32_t version_ = 0;  // of the vector it was copied from
  std::shared_ptr<const Views> views_;
  std::shared_ptr<const Layout> layout_;  // of the views
};

/// The bfloat16 shadow copy of every parameter, which matmuls read in mixed precision. Code that changes the values
/// must update it (put_as_bfloat16, or an optimizer step). Without a shadow copy, every tensor here is undefined.
class Bfloat16Shadow {
 public:
  Bfloat16Shadow() = default;
  /// `rows` [C, P] is the memory of the copy of values [C, P].
  Bfloat16Shadow(const Layout& layout, at::Tensor rows, std::shared_ptr<const FrozenShadow::Views> frozen);

  bool exists() const { return values_.defined(); }
  /// The trainable part, [C, P].
  const at::Tensor& values() const { return values_; }
  /// Like params[id] and params.joined(first), without autograd.
  const at::Tensor& operator[](ParamId id) const;
  const at::Tensor& joined(ParamId first) const { return joined_[first]; }

  /// Clients [begin, begin + count), on the same memory.
  Bfloat16Shadow rows(const Layout& layout, std::int64_t begin, std::int64_t count) const;

 private:
  at::Tensor values_;
  std::shared_ptr<const FrozenShadow::Views> frozen_;
  std::vector<at::Tensor> views_;
  JoinedViews joined_;
};

}  // namespace chorus::inline tensor

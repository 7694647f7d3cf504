#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

#include "core/ports/workbench.h"
#include "core/tensor/params.h"

namespace chorus::inline trainer {

/// Freezes some elements of every client during one optimizer step: zeroes their gradients, and undoes what the
/// optimizer does to the values (weight decay, old momentum).
///
///     const FrozenRanges frozen(ranges, params);
///     ...                        // clip, step
///     frozen.restore(params);
class FrozenRanges {
 public:
  FrozenRanges(std::span<const FlatRange> ranges, const Params& params);
  /// `params` may be another Params of the same layout and clients.
  void restore(const Params& params) const;

 private:
  struct Saved {
    FlatRange range;
    at::Tensor values, shadow;  // [A, n]
  };
  std::vector<Saved> saved_;
};

}  // namespace chorus::inline trainer

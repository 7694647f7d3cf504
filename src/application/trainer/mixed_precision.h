#pragma once

#include <c10/core/Device.h>

namespace chorus {

/// While it lives and is on, products on a GPU are computed in bfloat16 from float32 values, and sums, norms and losses
/// in float32 (LibTorch's autocast). Gradients and values stay float32. Does nothing on a CPU.
class MixedPrecision {
 public:
  MixedPrecision(bool on, at::Device device);
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;
  ~MixedPrecision();

 private:
  bool on_;
};

}  // namespace chorus

#pragma once

#include <ATen/core/Tensor.h>

#include "application/models/ops/dropout.h"
#include "application/models/ops/dropout_args.h"
#include "core/device/gpu_kernel.h"

namespace chorus::inline ops {

/// Helpers for launching our GPU kernels.

/// Threads per block, unless a kernel needs another number.
inline constexpr int kGpuThreads = 256;

/// The option for a kernel's element type; and its value for float32 or bfloat16.
KernelOption element_option(const char* name);
const char* gpu_element(at::ScalarType type);

/// Whether kernels can index x: float32 or bfloat16, rows of at most 4096 elements, fewer than 2^31 elements.
bool gpu_rows_fit(const at::Tensor& x);

/// The masks of a site.
MaskArgs mask_args(const Dropout::Site& site);

/// A parameter [H] or [C, H] that kernels read four elements at a time, H being a multiple of 4; copied if it is not
/// aligned. Null if undefined.
class AlignedRow {
 public:
  explicit AlignedRow(const at::Tensor& tensor);
  ClientRow row() const;

 private:
  at::Tensor aligned_;
};

}  // namespace chorus::inline ops

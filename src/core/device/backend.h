#pragma once

#include <ATen/core/Tensor.h>

namespace chorus::inline device {

/// The implementation of an operator that handles a call. The reference uses LibTorch's operators and works everywhere.
/// The others are loops over plain memory (x_cpu) and our own GPU kernels (x_gpu).
enum class Backend { kReference, kCpu, kGpu };

/// Which fast implementations support a call's element types and shapes.
struct Supported {
  bool cpu = false;
  bool gpu = false;
};

/// The one place that chooses an implementation: by the device of x, by what is supported there, and by whether this
/// build has it (CUDA) and the run wants it (`use_fast_kernels`, SecondOrder).
///
///     switch (backend_for(x, {.cpu = is_float(x), .gpu = norm_gpu_fits(x)})) { ... }
Backend backend_for(const at::Tensor& x, Supported supported);

/// The element types of our kernels: float32, or also bfloat16.
bool is_float(const at::Tensor& x);
bool is_float_or_bfloat16(const at::Tensor& x);

/// Whether our GPU kernels run on x's device.
inline bool uses_gpu_kernels(const at::Tensor& x) { return backend_for(x, {.gpu = true}) == Backend::kGpu; }

}  // namespace chorus::inline device

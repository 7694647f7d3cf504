#pragma once

#include <ATen/core/Tensor.h>

namespace chorus::inline device {

/// Which implementation of an operator computes a call. The reference is written with LibTorch's operators and works
/// everywhere; the others are loops over plain memory (x_cpu) and kernels of our own (x_gpu).
enum class Backend { kReference, kCpu, kGpu };

/// The implementations that can take a call: what an operator knows of its element types and shapes.
struct Supported {
  bool cpu = false;
  bool gpu = false;
};

/// The one place where an implementation is chosen: by where x lies, by what is supported there, and by whether this
/// program has it (a build with CUDA) and wants it (`use_fast_kernels`).
///
///     switch (backend_for(x, {.cpu = is_float(x), .gpu = norm_gpu_fits(x)})) { ... }
Backend backend_for(const at::Tensor& x, Supported supported);

/// float32; and float32 or bfloat16, which are the types our kernels know.
bool is_float(const at::Tensor& x);
bool is_float_or_bfloat16(const at::Tensor& x);

/// Whether our GPU kernels run on tensors that lie where x does.
inline bool uses_gpu_kernels(const at::Tensor& x) { return backend_for(x, {.gpu = true}) == Backend::kGpu; }

}  // namespace chorus::inline device

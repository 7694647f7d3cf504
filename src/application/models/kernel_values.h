#pragma once

#include "application/models/model_config.h"
#include "core/device/gpu_kernel.h"

namespace chorus::inline models {

enum class KernelPrecision { kFloat32, kTf32, kBFloat16 };

/// The variants of GPU kernels that a network of this configuration launches, for GpuWarmUp: element types by precision
/// (bfloat16, and float32 where the two meet), the size of an attention head, the width of a norm, the activation. A
/// guess by the keys that Hugging Face's families use: a wrong one costs time only. Sizes that are unknown or that no
/// kernel has are left out.
KernelValues kernel_values(const ModelConfig& config, KernelPrecision precision);

}  // namespace chorus::inline models

#pragma once

#include "application/models/model_config.h"
#include "core/device/gpu_kernel.h"

namespace chorus::inline models {

enum class KernelPrecision { kFloat32, kTf32, kBFloat16 };

/// The kernel variants that a network of this configuration launches, for GpuWarmUp: element types by precision
/// (bfloat16, and float32 where both occur), attention head size, norm width, activation. An estimate from the keys of
/// Hugging Face's families; a wrong one only costs time. Unknown sizes, and sizes without a kernel, are left out.
KernelValues kernel_values(const ModelConfig& config, KernelPrecision precision);

}  // namespace chorus::inline models

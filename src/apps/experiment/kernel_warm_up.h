#pragma once

#include "apps/experiment/experiment_config.h"
#include "core/device/gpu_kernel.h"

namespace chorus::inline experiment {

/// The variants of GPU kernels that a run will launch, as far as its configuration tells: what a GpuWarmUp compiles
/// while data is read. Compiled kernels are kept beside cached encodings from now on. Nothing on a CPU.
KernelValues kernels_of(const ExperimentConfig& config);

}  // namespace chorus::inline experiment

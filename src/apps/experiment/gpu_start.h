#pragma once

#include <memory>

#include "apps/experiment/experiment_config.h"
#include "core/device/gpu_warm_up.h"

namespace chorus::inline experiment {

/// Starts what the first round of this experiment would wait for on a GPU, beside the caller, and lets compiled kernels
/// stay in the cache folder (`encoding.cache`). Null on a CPU.
std::unique_ptr<GpuWarmUp> start_gpu(const ExperimentConfig& config, at::Device device);

}  // namespace chorus::inline experiment

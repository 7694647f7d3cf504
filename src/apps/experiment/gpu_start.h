#pragma once

#include <memory>

#include "apps/experiment/experiment_config.h"
#include "core/device/gpu_warm_up.h"

namespace chorus::inline experiment {

/// Starts, in the background, what the first round of this experiment would wait for on a GPU, and keeps compiled
/// kernels in the cache folder (`encoding.cache`). Null on a CPU.
std::unique_ptr<GpuWarmUp> start_gpu(const ExperimentConfig& config, at::Device device);

}  // namespace chorus::inline experiment

#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// How a simulation is spread over this machine.
struct MachineShare {
  std::size_t cohort_batch = 1;  ///< clients of one batched computation
  std::size_t workers = 1;       ///< such computations side by side
  int threads = 1;               ///< inside each of them
};

/// `config.federation`, with what is left to Chorus decided: `client_bytes` is what one more client of a computation
/// takes. The cohort batch decides bits, so it follows from the configuration and the memory alone, not from workers.
MachineShare machine_share(const ExperimentConfig& config, bool gpu, double client_bytes);

/// The device that `device: cpu` or `device: cuda` means. ConfigError when this machine has none.
at::Device device_named(const std::string& name);

/// Sets the switches of this process that a run wants: which kernels, and whether a GPU adds in a fixed order.
void use_kernels_of(const FederationConfig& config);

/// Bytes of memory that programs can still get.
double available_memory();

/// The most memory this process has held since `forget_peak_memory`, or since it began where the system cannot forget.
double peak_memory();
void forget_peak_memory();

}  // namespace chorus::inline experiment

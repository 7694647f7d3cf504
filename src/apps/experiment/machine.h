#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

#include "apps/experiment/experiment_config.h"
#include "core/ports/transport.h"

namespace chorus::inline experiment {

/// How a simulation is spread over this machine.
struct MachineShare {
  std::size_t cohort_batch = 1;  ///< clients per batched computation
  std::size_t workers = 1;       ///< batched computations side by side
  int threads = 1;               ///< threads per computation
};

/// `config.federation` with the automatic settings filled in; `client_bytes` is the memory of one more client in a
/// computation. The cohort batch changes bits, so it depends on the configuration and the memory alone, not on workers.
MachineShare machine_share(const ExperimentConfig& config, bool gpu, double client_bytes);

/// Where a machine has several GPUs, each of its processes uses another one. Before LibTorch looks for GPUs: it changes
/// CUDA_VISIBLE_DEVICES.
void use_gpu_of(const Transport::Place& place);
/// The value it gets: one of those that are `visible` already, or (null) of `count`. Empty: it stays as it is.
std::string gpu_of(const Transport::Place& place, const char* visible, std::size_t count);

/// The device that `device: cpu` or `device: cuda` means. ConfigError when this machine has none.
at::Device device_named(const std::string& name);

/// Sets the process-wide switches of a run: which kernels, and whether a GPU adds in a fixed order.
void use_kernels_of(const FederationConfig& config);

/// Bytes of memory that are still available to programs.
double available_memory();

/// The peak memory of this process since `forget_peak_memory`, or since its start where the system cannot reset it.
double peak_memory();
void forget_peak_memory();

}  // namespace chorus::inline experiment

#pragma once

#include <ATen/core/Tensor.h>

#include <thread>
#include <vector>

#include "core/device/gpu_kernel.h"

namespace chorus::inline device {

/// Prepares a GPU on background threads while data is read: the CUDA context, cuBLAS, and the kernels of this program
/// in the variants that `values` names (KernelFamily::variants). On a cold start, compiling takes seconds of CPU time;
/// kernels compile in parallel. Correctness does not depend on it: a launch compiles what is missing, and reports what
/// failed here. Does nothing on a CPU.
///
///     const GpuWarmUp warm_up(device, {{"ELEMENT", {"bf16"}}, {"D", {"32"}}});
///     ...                                         // read data
///
/// The destructor waits for the threads.
class GpuWarmUp {
 public:
  GpuWarmUp(at::Device device, const KernelValues& values);
  GpuWarmUp(const GpuWarmUp&) = delete;
  GpuWarmUp& operator=(const GpuWarmUp&) = delete;
  ~GpuWarmUp();

  /// A variant of a family, as `#define` lines.
  struct Job {
    const KernelFamily* family = nullptr;
    std::string defines{};
  };
  /// All variants with these values: the first of each family, then the second of each, and so on. List the values that
  /// are needed most first.
  static std::vector<Job> jobs(const KernelValues& values);

 private:
  std::vector<std::thread> threads_;
};

}  // namespace chorus::inline device

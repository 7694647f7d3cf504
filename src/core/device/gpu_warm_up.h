#pragma once

#include <ATen/core/Tensor.h>

#include <thread>
#include <vector>

#include "core/device/gpu_kernel.h"

namespace chorus::inline device {

/// What a program's first work on a GPU would wait for, done on background threads while data is read: the CUDA
/// context, cuBLAS, and the kernels of this program in the variants that `values` names (KernelFamily::variants). On a
/// cold start compiling takes seconds of CPU time, and kernels compile side by side. Nothing depends on it: what is
/// missing at a launch is compiled then, and what fails here fails again there with its message. On a CPU it does
/// nothing.
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
  /// All variants of these values, the first of each family before the second of any: the values that are needed most
  /// should come first.
  static std::vector<Job> jobs(const KernelValues& values);

 private:
  std::vector<std::thread> threads_;
};

}  // namespace chorus::inline device

#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <string>

namespace chorus::inline device {

/// Sets LibTorch up, once per process and, for warnings, once per thread: one thread per logical core unless
/// OMP_NUM_THREADS says otherwise (LibTorch's default does not count hyper-threads), warnings in our log, and tensors
/// in huge pages (tensor_memory.h). Params calls it, so no other code has to.
void prepare_torch();

/// While it lives, LibTorch uses `count` threads for this thread's operations; 0: one per core. A thread that works
/// beside others should use one, because the threads of a finished operation spin for a while on cores that others
/// could use.
class TorchThreads {
 public:
  explicit TorchThreads(int count);
  TorchThreads(const TorchThreads&) = delete;
  TorchThreads& operator=(const TorchThreads&) = delete;
  ~TorchThreads();

 private:
  int before_;
};

/// Copies a CPU tensor to `device`. A copy to a GPU is queued like other work and the caller continues; Tensor::to
/// would wait for all work launched before.
at::Tensor sent_to(at::Device device, const at::Tensor& here);

/// Whether this exception says that host or GPU memory is exhausted.
bool is_out_of_memory(const std::exception& error);
/// The first line of an exception's text; LibTorch adds stack traces after it.
std::string first_line(const std::exception& error);
/// Free bytes of the GPU; 0 without one.
double free_gpu_memory();
/// Returns the GPU memory that LibTorch caches.
void release_unused_memory();

}  // namespace chorus::inline device

#pragma once

#include <ATen/core/Tensor.h>

#include <exception>

namespace chorus::inline device {

/// Sets LibTorch up, at the first call and at the first of each thread: one thread a core unless OMP_NUM_THREADS says
/// otherwise (LibTorch counts hyper-threads out), its warnings go to our log, and tensors lie in large pages
/// (tensor_memory.h). Params calls it, so nobody else has to.
void prepare_torch();

/// While it lives, LibTorch uses so many threads for the operations of this thread; 0: one per core. A thread that
/// works beside others should use one: the threads of a finished operation go on spinning for a while, on a core that
/// somebody else could use.
class TorchThreads {
 public:
  explicit TorchThreads(int count);
  TorchThreads(const TorchThreads&) = delete;
  TorchThreads& operator=(const TorchThreads&) = delete;
  ~TorchThreads();

 private:
  int before_;
};

/// A tensor of this machine's memory on `device`. To a GPU the copy is queued like any other work: the caller goes on,
/// where Tensor::to would wait until the GPU has done all it was asked for before.
at::Tensor sent_to(at::Device device, const at::Tensor& here);

/// Whether this is what LibTorch throws when memory, the machine's or a GPU's, is used up.
bool is_out_of_memory(const std::exception& error);
/// Bytes of the GPU that nobody uses; 0 without one.
double free_gpu_memory();
/// Gives what LibTorch keeps of a GPU's memory for later back.
void release_unused_memory();

}  // namespace chorus::inline device

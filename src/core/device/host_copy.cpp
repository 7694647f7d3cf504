#include "core/device/host_copy.h"

#include <ATen/ATen.h>

#ifdef CHORUS_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "core/base/error.h"

namespace chorus::inline device {

#ifdef CHORUS_HAS_CUDA

struct HostCopy::Arrival {
  at::cuda::CUDAEvent event;
};

HostCopy::HostCopy(const at::Tensor& tensor) : here_(tensor.detach()) {
  if (!tensor.is_cuda()) return;
  here_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  here_.copy_(tensor.detach(), /*non_blocking=*/true);
  arrival_ = std::make_shared<Arrival>();
  arrival_->event.record(c10::cuda::getCurrentCUDAStream(tensor.device().index()));
}

at::Tensor HostCopy::wait() const {
  if (arrival_) arrival_->event.synchronize();
  return here_;
}

#else

struct HostCopy::Arrival {};

HostCopy::HostCopy(const at::Tensor& tensor) : here_(tensor.detach()) {
  check(tensor.is_cpu(), "this program was built without CUDA");
}

at::Tensor HostCopy::wait() const { return here_; }

#endif

}  // namespace chorus::inline device

#include "core/device/tensor_snapshot.h"

#include <ATen/ATen.h>

#ifdef CHORUS_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/device/torch_runtime.h"
#endif

#include "core/base/error.h"

namespace chorus::inline device {

#ifdef CHORUS_HAS_CUDA

struct TensorSnapshot::Ready {
  at::cuda::CUDAEvent event;
};

TensorSnapshot::TensorSnapshot(const at::Tensor& tensor) {
  const at::Tensor now = tensor.detach();
  try {
    copy_ = now.clone(at::MemoryFormat::Contiguous);
  } catch (const std::exception& error) {
    if (!now.is_cuda() || !is_out_of_memory(error)) throw;
    copy_ = now.to(at::kCPU).contiguous();
  }
  if (!copy_.is_cuda()) return;
  ready_ = std::make_shared<Ready>();
  ready_->event.record(c10::cuda::getCurrentCUDAStream(copy_.device().index()));
}

at::Tensor TensorSnapshot::on_host() const {
  if (!ready_) return copy_;
  // A separate stream: on the current one, the copy would wait for all work launched since.
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, copy_.device().index());
  const c10::cuda::CUDAStreamGuard guard(stream);
  ready_->event.block(stream);
  return copy_.to(at::kCPU);  // waits for the stream, so the copy may be freed afterwards
}

#else

struct TensorSnapshot::Ready {};

TensorSnapshot::TensorSnapshot(const at::Tensor& tensor) : copy_(tensor.detach().clone(at::MemoryFormat::Contiguous)) {
  check(tensor.is_cpu(), "this program was built without CUDA");
}

at::Tensor TensorSnapshot::on_host() const { return copy_; }

#endif

}  // namespace chorus::inline device

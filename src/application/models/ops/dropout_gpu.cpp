#include "application/models/ops/dropout_gpu.h"

#include "application/models/ops/gpu_arguments.h"

namespace chorus::kernels {
extern const KernelSource dropout_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kDropoutKernels{kernels::dropout_gpu, {element_option("ELEMENT")}};
const GpuKernel<MaskHiddenArgs> kMaskHidden{kDropoutKernels, "mask_hidden"};
const GpuKernel<MaskWeightsArgs> kMaskWeights{kDropoutKernels, "mask_weights"};

GpuGrid mask_grid(std::int64_t groups) {
  return {.blocks = std::min<std::int64_t>((groups + kGpuThreads - 1) / kGpuThreads, 65535), .threads = kGpuThreads};
}

}  // namespace

at::Tensor mask_hidden_gpu(const at::Tensor& x, const Dropout::Site& site) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = torch::empty_like(from);
  const std::int64_t groups = x.size(0) * x.size(1) * ((x.size(2) + 3) / 4);
  kMaskHidden.launch(mask_grid(groups),
                     {.x = from.data_ptr(),
                      .y = to.data_ptr(),
                      .mask = mask_args(site),
                      .rows = static_cast<u32>(x.size(1)),
                      .width = static_cast<u32>(x.size(2)),
                      .total = static_cast<u32>(groups)},
                     {gpu_element(x.scalar_type())});
  return to;
}

at::Tensor mask_weights_gpu(const at::Tensor& x, const Dropout::Site& site, const at::Tensor& client_of,
                            const at::Tensor& sequence_of) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = torch::empty_like(from);
  const std::int64_t groups = x.size(0) * x.size(1) * x.size(2) * ((x.size(3) + 3) / 4);
  kMaskWeights.launch(mask_grid(groups),
                      {.x = from.data_ptr(),
                       .y = to.data_ptr(),
                       .mask = mask_args(site),
                       .client_of = client_of.data_ptr<std::int64_t>(),
                       .sequence_of = sequence_of.data_ptr<std::int64_t>(),
                       .heads = static_cast<u32>(x.size(1)),
                       .queries = static_cast<u32>(x.size(2)),
                       .width = static_cast<u32>(x.size(3)),
                       .total = static_cast<u32>(groups)},
                      {gpu_element(x.scalar_type())});
  return to;
}

}  // namespace chorus::inline ops
